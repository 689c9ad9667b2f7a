"""A segment: some rows that are kept for a join, sorted by key, with an index that tells what is in it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.records.key_groups import key_group, stable_hash

Codes = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Columns = tuple[Times, Times, Flags]
"""Event times, ends, and whether a partner was found."""
INDEX = pa.schema(
    [
        pa.field("code", pa.uint64()),
        pa.field("time", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("matched", pa.bool_()),
    ]
)
"""What is kept about each row, in the order of the rows."""
GROUP_SHIFT = np.uint64(48)
"""Above it a code has the key group, which has 15 bits at most; below it bits of the hash."""


def codes_of(columns: list[pa.Array], key_groups: int, *, rows: int | None = None) -> Codes:
    """Equal keys have equal codes, which sort by key group; the keys of equal codes may differ, if hardly ever."""
    hashes = stable_hash(columns, rows=rows)
    groups = key_group(hashes, key_groups).astype(np.uint64)
    # Sixteen bits of the hash must go: the lowest, part of which the group says already.
    return groups << GROUP_SHIFT | hashes >> np.uint64(16)


class Segment:
    """Some rows, sorted by the code of their key; rows of one key stand in the order they came."""

    def __init__(self, codes: Codes, columns: Columns | None = None) -> None:
        self.codes = codes
        if columns is not None:
            self.times, self.ends, self.matched = columns
        self.is_changed = False
        self.usable: Flags | None = None
        """Which rows may have a partner at all; `None`: every one. Only known of rows that just came."""
        self._rows: pa.RecordBatch | None = None
        self._order: Places | None = None
        self._load: Callable[[], pa.RecordBatch] | None = None
        self._index: pa.RecordBatch | None = None

    def __len__(self) -> int:
        return len(self.codes)

    # Most segments that are opened have nothing for those who ask: their codes are enough.

    @functools.cached_property
    def times(self) -> Times:
        """The event time of each row."""
        times: Times = self._column("time")
        return times

    @functools.cached_property
    def ends(self) -> Times:
        """The last instant at which each row counts."""
        ends: Times = self._column("end")
        return ends

    @functools.cached_property
    def matched(self) -> Flags:
        """Whether each row found a partner."""
        matched: Flags = self._column("matched").copy()
        return matched

    def _column(self, name: str) -> Any:
        assert self._index is not None, "a segment has its index or the columns of it"
        return self._index.column(name).to_numpy(zero_copy_only=False)

    @classmethod
    def arrived(
        cls,
        rows: pa.RecordBatch,
        codes: Codes,
        times: Times,
        ends: Times,
        *,
        usable: Flags | None = None,
        places: Places | None = None,
    ) -> Segment:
        """A segment of rows in the order they came; they are sorted when they are taken.

        Args:
            rows: the rows, each once.
            codes: the code of each entry of the index.
            times: its event time.
            ends: its last instant.
            usable: whether it may have a partner; every one may by default.
            places: the row it stands for; by default the entries are the rows.
        """
        order = np.argsort(codes, kind="stable")
        segment = cls(codes[order], (times[order], ends[order], np.zeros(len(order), np.bool_)))
        segment.usable = None if usable is None else usable[order]
        segment._rows, segment._order = rows, order if places is None else places[order]
        return segment

    @classmethod
    def stored(cls, index: pa.RecordBatch, load: Callable[[], pa.RecordBatch]) -> Segment:
        """A segment whose rows are loaded when they are first taken."""
        segment = cls(index.column(0).to_numpy())
        segment._index, segment._load = index, load
        return segment

    def take(self, places: Places, columns: list[str] | None = None) -> pa.RecordBatch:
        """The rows at these places, with all columns or some."""
        rows = self.rows() if columns is None else self.rows().select(columns)
        return rows.take(pa.array(self.origins(places)))

    def origins(self, places: Places) -> Places:
        """Where these rows stood among those that came."""
        return places if self._order is None else self._order[places]

    def sorted(self) -> pa.RecordBatch:
        """All rows in the order of the index."""
        return self.rows() if self._order is None else self.rows().take(pa.array(self._order))

    def rows(self) -> pa.RecordBatch:
        """All rows in the order they are kept."""
        if self._rows is None:
            assert self._load is not None, "a segment has its rows or knows where they are"
            self._rows = self._load()
        return self._rows

    def let_go(self) -> None:
        """Hold the rows no longer, where they can be loaded again."""
        if self._load is not None:
            self._rows = None

    def mark(self, places: Places) -> None:
        """Say that these rows have found a partner, or need none any more."""
        if not self.matched[places].all():
            self.matched[places] = True
            self.is_changed = True

    def part(self, places: Places | slice, rows: pa.RecordBatch) -> Segment:
        """A segment of some of the rows, which the caller has taken in the order of the index."""
        part = Segment(self.codes[places], (self.times[places], self.ends[places], self.matched[places]))
        part._rows = rows
        return part

    def index(self) -> pa.RecordBatch:
        """The index as it is stored."""
        arrays = [pa.array(column) for column in (self.codes, self.times, self.ends, self.matched)]
        return pa.RecordBatch.from_arrays(arrays, schema=INDEX)


class Found(NamedTuple):
    """Places of rows with equal codes: in the segment that was asked with, and in one that is kept."""

    segment: Segment
    asking: Places
    places: Places


def hits(segment: Segment, asking: Segment, start: int, end: int, limit: int) -> Iterator[Found]:
    """Pairs of a segment and some of the asking rows."""
    codes = asking.codes[start:end]
    if not len(segment):
        return
    low = segment.codes.searchsorted(codes)
    # A code beyond the last one is sought behind the end; clipped, it meets a smaller one and is no hit.
    is_hit = segment.codes.take(low, mode="clip") == codes
    if asking.usable is not None:
        is_hit &= asking.usable[start:end]
    places = is_hit.nonzero()[0]
    if not len(places):
        return
    low = low[places]
    # The other end of a run is sought for hits alone, which may be few.
    counts = segment.codes.searchsorted(codes[places], "right") - low
    for numbers, met in expanded(low, counts, limit):
        yield Found(segment, places[numbers] + start, met)


def expanded(low: Places, counts: Places, limit: int) -> Iterator[tuple[Places, Places]]:
    """Each place as often as its count, with the numbers from its low one on; about `limit` at a time."""
    places = np.flatnonzero(counts)
    ends = np.cumsum(counts[places])
    start = 0
    while start < len(places):
        done = int(ends[start - 1]) if start else 0
        # One place may have more than the limit by itself; it is not cut.
        stop = max(start + 1, int(np.searchsorted(ends, done + limit, "right")))
        chosen = places[start:stop]
        many = counts[chosen]
        # 0, 1, 2 … anew for each place: a running number less what the places before have taken.
        steps = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
        yield np.repeat(chosen, many), np.repeat(low[chosen], many) + steps
        start = stop


def merged(segments: list[Segment]) -> Segment:
    """One segment of several, the older ones first."""
    codes = np.concatenate([segment.codes for segment in segments])
    order = np.argsort(codes, kind="stable")
    times, ends, matched = (
        np.concatenate([getattr(segment, name) for segment in segments])[order] for name in ("times", "ends", "matched")
    )
    whole = Segment(codes[order], (times, ends, matched))
    whole._rows = pa.concat_batches([segment.sorted() for segment in segments])
    whole._order = order
    return whole


def without(segment: Segment, needed: Flags) -> Segment:
    """A segment of the rows that are needed."""
    if needed.all():
        return segment
    places = np.flatnonzero(needed)
    return segment.part(places, segment.take(places))
