"""The journal of a driver: reports that must outlast its memory, for a node that comes back late."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

FILE_BYTES = 8 << 20
JOURNALED = frozenset({"state", "epoch", "answer", "result"})


_log = logging.getLogger(__name__)


class _Numbered(msgspec.Struct):
    seq: int


_SEQ = msgspec.json.Decoder(_Numbered)


class Journal:
    """Two files of lines: the newer one, and the one that was full before it."""

    def __init__(self, path: Path, *, file_bytes: int = FILE_BYTES) -> None:
        self._path, self._older, self._file_bytes = path, path.with_name(f"{path.name}.1"), file_bytes
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, line: bytes) -> None:
        """Append a line with its end. A disk that fails is no reason for the run to end: the line is in memory too."""
        try:
            self._append(line)
        except OSError as problem:
            _log.warning("the journal could not be written: %s", problem)

    def _append(self, line: bytes) -> None:
        if self._size + len(line) > self._file_bytes:
            os.close(self._file)
            self._path.replace(self._older)
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            self._size = 0
        os.write(self._file, line)
        self._size += len(line)

    def lines(self, *, above: int, below: int) -> Iterator[tuple[int, bytes]]:
        """Lines whose number is between the two."""
        for path in (self._older, self._path):
            if not path.exists():
                continue
            with path.open("rb") as file:
                for line in file:
                    if not line.endswith(b"\n"):
                        continue
                    number = _number(line)
                    if above < number < below:
                        yield number, line


def _number(line: bytes) -> int:
    """The number of a line; 0 for one that was cut when the disk was full."""
    try:
        return _SEQ.decode(line).seq
    except msgspec.DecodeError:
        return 0
