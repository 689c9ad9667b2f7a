"""Reads entries of an intake log in a worker: parts of files, as a split names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from millstream.connectors.intake.files import LoggedEntry, entry_of, place_of
from millstream.connectors.intake.frames import TornFrame, read_body, read_head
from millstream.errors import CheckpointRefused

FilePart = list[Any]
"""A file, the byte at which its first entry starts, and the byte behind its last: a JSON value."""


def parts_of(entries: Iterable[LoggedEntry]) -> list[FilePart]:
    """The parts of files that hold entries; neighbours become one part."""
    parts: list[FilePart] = []
    for entry in entries:
        if parts and parts[-1][0] == entry.file and parts[-1][2] == entry.start:
            parts[-1][2] = entry.end
        else:
            parts.append([entry.file, entry.start, entry.end])
    return parts


def read_parts(folder: Path, parts: Sequence[FilePart]) -> Iterator[tuple[LoggedEntry, bytes]]:
    """The entries of parts of files with their bytes as they were received.

    Raises:
        CheckpointRefused: (INTAKE-004) they are not what was written.
    """
    for name, start, end in parts:
        file = place_of([name, start]).file
        try:
            yield from _read_part(folder, file, start, end)
        except (TornFrame, FileNotFoundError) as problem:
            msg = f"the intake file {str(folder / file)!r} is missing or was changed"
            hint = "restore the folder of the source inside the checkpoint; the workers must reach it by the same path"
            raise CheckpointRefused(msg, code="INTAKE-004", found=f"bytes {start} to {end}", hint=hint) from problem


def _read_part(folder: Path, name: str, at: int, end: int) -> Iterator[tuple[LoggedEntry, bytes]]:
    with (folder / name).open("rb") as file:
        while at < end:
            frame = read_head(file, at)
            if frame is None:
                raise TornFrame(at)
            yield entry_of(name, frame), read_body(file, frame)
            at = frame.end
