"""The files of an intake log, and the order in which they are read.

An owner writes files of its own, `intake-<token>-<number>`. Each begins with a frame that names the place it follows: the end
of the file before it, or the place at which its owner took over. So what an earlier owner wrote behind that place belongs to
nothing, and a place in one file leads back to any place before it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from millstream.connectors.intake.frames import FrameHead, TornFrame, read_head, whole_frames
from millstream.errors import CheckpointRefused

_NAME = re.compile(r"intake-(\d{6,})-(\d{6,})")
_HINT = "restore the folder of the source inside the checkpoint, with all its files"


class LogPlace(NamedTuple):
    """A place in the log: a file and a byte in it. Everything before it has been read."""

    file: str
    offset: int


ORIGIN = LogPlace("", 0)
"""Before everything."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedEntry:
    """Something received that lies in the log; `note` is what its source wrote beside it."""

    file: str
    start: int
    end: int
    rows: int
    note: Any

    @property
    def place(self) -> LogPlace:
        """The place behind it."""
        return LogPlace(self.file, self.end)

    @property
    def bytes(self) -> int:
        """Its size in the file."""
        return self.end - self.start


class FileSpan(NamedTuple):
    """Part of a file."""

    file: str
    start: int
    end: int | None
    """`None`: as far as there are whole frames."""


def file_name(token: int, number: int) -> str:
    """What an owner calls its nth file."""
    return f"intake-{token:06d}-{number:06d}"


def number_of(name: str) -> tuple[int, int] | None:
    """Token and number of a file, or `None` for one that is not of an intake log; this is also their order."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def file_names(folder: Path) -> list[str]:
    """The files of a log in their order."""
    numbered = ((number_of(path.name), path.name) for path in folder.iterdir()) if folder.is_dir() else ()
    return [name for number, name in sorted((number, name) for number, name in numbered if number is not None)]


def place_of(stored: Sequence[Any]) -> LogPlace:
    """A place as a position holds it; a name that is none of ours never becomes a path."""
    file, offset = stored
    if (file and number_of(file) is None) or not isinstance(offset, int) or offset < 0:
        msg = "a position names no place of an intake log"
        raise CheckpointRefused(msg, code="INTAKE-001", found=repr(stored), hint=_HINT)
    return LogPlace(file, offset)


def followed(folder: Path, name: str) -> tuple[LogPlace, int] | None:
    """The place that a file follows and where its entries begin; `None` if its first frame is torn or names no earlier file."""
    try:
        with (folder / name).open("rb") as file:
            head = read_head(file, 0)
    except TornFrame:
        return None
    if head is None:
        return None
    before = place_of(head.head["follows"])
    # Files that follow each other in a circle, as nobody writes them, would be followed for ever.
    is_earlier = (number_of(before.file) or (-1, -1)) < (number_of(name) or (-1, -1))
    return (before, head.end) if is_earlier else None


def spans_between(folder: Path, start: LogPlace, end: LogPlace) -> list[FileSpan]:
    """Which parts of which files lie between two places, found by going back from the later one."""
    spans: list[FileSpan] = []
    file, upto = end
    while file != start.file:
        before = followed(folder, file) if file and (folder / file).is_file() else None
        if before is None:
            raise _lost(folder, start, end, file)
        follows, begin = before
        if begin < upto:
            spans.append(FileSpan(file, begin, upto))
        if follows == start:
            return spans[::-1]
        file, upto = follows
    if start.offset > upto:
        raise _lost(folder, start, end, file)
    if start.offset < upto:
        spans.append(FileSpan(file, start.offset, upto))
    return spans[::-1]


def entries_between(folder: Path, start: LogPlace, end: LogPlace) -> list[LoggedEntry]:
    """What lies between two places, in order. It was durable before the later place was handed out, so all must be there."""
    entries: list[LoggedEntry] = []
    for span in spans_between(folder, start, end):
        try:
            entries.extend(_entries(folder, span))
        except (TornFrame, FileNotFoundError):
            raise _lost(folder, start, end, span.file) from None
    return entries


def _entries(folder: Path, span: FileSpan) -> Iterator[LoggedEntry]:
    assert span.end is not None
    at = span.start
    with (folder / span.file).open("rb") as file:
        while at < span.end:
            head = read_head(file, at)
            if head is None or head.end > span.end:
                raise TornFrame(at)
            yield entry_of(span.file, head)
            at = head.end


def whole_entries(folder: Path, span: FileSpan) -> list[LoggedEntry]:
    """What can be read of a file, up to its torn end."""
    with (folder / span.file).open("rb") as file:
        return [entry_of(span.file, head) for head in whole_frames(file, span.start, span.end)]


def entry_of(file: str, frame: FrameHead) -> LoggedEntry:
    """The entry that a frame holds."""
    return LoggedEntry(file, frame.start, frame.end, frame.head["rows"], frame.head["note"])


def _lost(folder: Path, start: LogPlace, end: LogPlace, file: str) -> CheckpointRefused:
    msg = f"the intake log {str(folder)!r} has no whole file {file!r} between two places of a plan"
    known = ", ".join(file_names(folder)) or "no files"
    return CheckpointRefused(msg, code="INTAKE-002", found=f"{list(start)} to {list(end)}", known=known, hint=_HINT)
