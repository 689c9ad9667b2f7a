"""What of a wheel goes on `sys.path`: the root of a pure one, and its `purelib`. Scripts and headers are not installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from email.parser import HeaderParser
from typing import BinaryIO, NoReturn

from millstream.control.artifacts.archive import ArchiveEntry, contents_of
from millstream.control.artifacts.limits import ArtifactRefused, UnpackBudget

_NEEDED = ("METADATA", "RECORD", "WHEEL")
_MOST_HEADER = 1 << 20
Parts = tuple[str, ...]


def wheel_layout(file: BinaryIO, entries: Sequence[ArchiveEntry]) -> Callable[[Parts], Parts]:
    """A function from the path of a file to where it goes; nowhere if that is empty.

    Raises:
        ArtifactRefused: (CTL-357) it is no wheel of the kind that needs no installation.
    """
    by_name = {entry.name: entry for entry in entries}
    infos = sorted({name.split("/")[0] for name in by_name if name.split("/")[0].endswith(".dist-info")})
    if len(infos) != 1 or any(f"{infos[0]}/{name}" not in by_name for name in _NEEDED):
        _refuse("it needs one folder .dist-info with METADATA, RECORD and WHEEL", ", ".join(infos))
    entry = by_name[f"{infos[0]}/WHEEL"]
    if entry.size > _MOST_HEADER:
        _refuse("its file WHEEL is too long", entry.name)
    text = b"".join(contents_of(file, entry, UnpackBudget())).decode("utf-8", "replace")
    headers = HeaderParser().parsestr(text)
    if not str(headers.get("Wheel-Version", "")).startswith("1."):
        _refuse("it is of another version than 1", headers.get("Wheel-Version"))
    if str(headers.get("Root-Is-Purelib", "")).strip().lower() != "true":
        _refuse("it holds code for one kind of machine", headers.get("Root-Is-Purelib"))
    data = infos[0].removesuffix(".dist-info") + ".data"
    return lambda parts: _place(parts, data)


def _place(parts: Parts, data: str) -> Parts:
    if parts[0] != data:
        return parts
    if len(parts) > 2 and parts[1] == "purelib":
        return parts[2:]
    if len(parts) > 2 and parts[1] == "platlib":
        _refuse("it holds code for one kind of machine", "/".join(parts))
    return ()


def _refuse(problem: str, found: object) -> NoReturn:
    msg = f"the wheel is refused: {problem}"
    hint = "build a pure one (py3-none-any); install what has compiled parts where the nodes run"
    raise ArtifactRefused(msg, code="CTL-357", found=repr(found)[:300], hint=hint)
