"""Marks partitions of time as complete: a file `_SUCCESS` in the folder of each, once the watermark is far enough beyond it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

from millstream.checkpoint.stores.local import LocalStore
from millstream.connectors.files.partitions import Partition, folder_of

MARK = "_SUCCESS"
_DAY = dt.timedelta(days=1)
_SHAPES = (
    ("%Y-%m-%d %H:%M:%S", dt.timedelta(seconds=1)),
    ("%Y-%m-%d %H:%M", dt.timedelta(minutes=1)),
    ("%Y-%m-%d %H", dt.timedelta(hours=1)),
    ("%Y-%m-%d", _DAY),
)
"""What the values of a partition may read like together, and how long it is then."""


def end_of(partition: Partition) -> int | None:
    """The first instant behind a partition, in milliseconds since 1970; `None` when its values are no time.

    The values are read one after the other, as in `dt=2026-01-01/hm=10:30`; a time of day may also have its own columns.
    """
    values = list(partition.values())
    if not values or None in values:
        return None
    date, *rest = (str(value) for value in values)
    text = f"{date} {':'.join(rest)}".strip().replace("T", " ")
    for shape, length in _SHAPES:
        try:
            start = dt.datetime.strptime(text, shape).replace(tzinfo=dt.UTC)
        except ValueError:
            continue
        return int((start + length).timestamp() * 1000)
    return None


class PartitionCommits:
    """The partitions of one sink that are published and not marked yet."""

    def __init__(self, root: Path, delay: int) -> None:
        self._root, self._delay = root, delay
        self._waiting: dict[str, int] = {}

    def add(self, partitions: Iterable[Partition]) -> None:
        """Rows of these partitions are published; one that is marked already stays so."""
        for partition in partitions:
            end, folder = end_of(partition), folder_of(partition)
            if end is not None and folder not in self._waiting and not (self._root / folder / MARK).exists():
                self._waiting[folder] = end

    def mark(self, watermark: int) -> None:
        """Mark what is complete, and has been for the delay; a repetition changes nothing."""
        for folder, end in sorted(self._waiting.items()):
            if end - 1 + self._delay <= watermark:
                if not (self._root / folder / MARK).exists():
                    LocalStore(self._root / folder).create(MARK, b"")
                del self._waiting[folder]
