"""Checks an archive as a whole before anything of it is unpacked, and says where each of its files would go."""

from __future__ import annotations

import re
from typing import BinaryIO, NamedTuple

from millstream.control.artifacts.archive import ArchiveEntry, contents_of, entries_of
from millstream.control.artifacts.limits import ArtifactKind, ArtifactRefused, UnpackBudget
from millstream.control.artifacts.names import NameTree, checked_parts
from millstream.control.artifacts.wheels import wheel_layout

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]{0,250}\.(zip|whl)")


class UnpackedFile(NamedTuple):
    """A file of an archive and where it goes, below the folder that becomes part of `sys.path`."""

    entry: ArchiveEntry
    parts: tuple[str, ...]


def kind_of(name: str) -> ArtifactKind:
    """What an archive is by the name it comes with.

    Raises:
        ArtifactRefused: (CTL-357) it is neither a zip nor a wheel, or is called what no file should be called.
    """
    if isinstance(name, str) and _NAME.fullmatch(name):
        return "wheel" if name.endswith(".whl") else "zip"
    msg = "code comes as a zip or a wheel"
    known = "a name such as orders.zip or orders-1.0-py3-none-any.whl: letters, digits and ._+!-"
    raise ArtifactRefused(msg, code="CTL-357", found=repr(name)[:300], known=known, hint="name it like that")


def files_of(file: BinaryIO, kind: ArtifactKind) -> list[UnpackedFile]:
    """The files of an archive whose names and kinds are safe; their content has not been looked at.

    Raises:
        ArtifactRefused: (CTL-350 to CTL-357) why it is not.
    """
    entries = entries_of(file)
    tree, placed = NameTree(), NameTree()
    # Two entries may only meet where a wheel moves them: each set of names is checked for itself.
    for entry in entries:
        tree.add(checked_parts(entry.name), is_folder=entry.is_folder)
    found = [UnpackedFile(entry, checked_parts(entry.name)) for entry in entries if not entry.is_folder]
    if kind == "wheel":
        place = wheel_layout(file, entries)
        found = [UnpackedFile(each.entry, parts) for each in found if (parts := place(each.parts))]
        for each in found:
            placed.add(each.parts, is_folder=False)
    return found


def check_archive(file: BinaryIO, kind: ArtifactKind) -> None:
    """Read all of an archive, and refuse what must not be unpacked.

    Raises:
        ArtifactRefused: (CTL-350 to CTL-357) why.
    """
    files_of(file, kind)
    budget = UnpackBudget()
    for entry in entries_of(file):
        for _ in contents_of(file, entry, budget):
            pass
