"""Rows kept for a join: append-only segments per key group, each sorted by key, merged as they add up.

An epoch appends one segment to each key group it touches; segments of about one size are merged, so a row is written again
only a few times however long it is kept. Beside its rows a segment has an index: the code of each row's key, its event time,
the last instant at which it may find a partner, and whether it found one. Rows are read only where the index finds something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from millstream.contract.pages import PageStore
from millstream.state.compat.float_keys import rekey_rows
from millstream.state.pages import STATE_BYTES, Due, PageId, StepPages
from millstream.state.segment import GROUP_SHIFT, INDEX, Flags, Found, Segment, hits, merged, without

_SIZE_BITS = 6
"""Bits of a segment's page number that tell its size; the others are its age."""
_FAN = 3
"""That many segments of one size, or smaller, are merged with the next one that comes."""
_SMALL, _LARGEST = 4, 10
"""Segments below 4^4 rows are merged at once: to open one costs as much as to read it. Those from 4^10 on are left alone."""


Kept = Callable[[Segment], Flags]
"""Tells which rows of a segment, in the order of its index, are still needed."""
Attention = Callable[[Segment], int]
"""Gives the event time at which a segment next needs attention."""


class Segments:
    """The rows of one side of a join in one subtask, for the length of one epoch."""

    def __init__(
        self,
        store: PageStore,
        uid: str,
        schema: pa.Schema,
        *,
        keys: tuple[str, ...] = (),
        state_bytes: int = STATE_BYTES,
    ) -> None:
        self._schema, self._budget, self._held = schema, state_bytes, 0
        self._rows, self._index = StepPages(store, uid), StepPages(store, index_uid(uid))
        self.is_rekeyed = rekey_rows(self._rows, schema, keys)
        """Whether rows that were equal by their codes may have become rows of one key just now."""
        self._stored: dict[int, list[PageId]] = {}
        self._dues: dict[PageId, Due] = {}
        for place, due in self._index:
            self._stored.setdefault(place.group, []).append(place)
            self._dues[place] = due
        self._opened: dict[PageId, Segment] = {}
        self._fresh: list[Segment] = []

    def add(self, segment: Segment) -> None:
        """Keep rows that came in this epoch."""
        self._fresh.append(segment)

    def find(self, asking: Segment, limit: int) -> Iterator[Found]:
        """Kept rows with the codes of the asking ones, the oldest segments first, about `limit` pairs at a time."""
        if self._stored:
            groups = sorted(self._stored)
            edges = np.array(groups, np.uint64)
            # Codes begin with the key group, so the asking rows of a group lie side by side.
            starts = np.searchsorted(asking.codes, edges << GROUP_SHIFT)
            ends = np.searchsorted(asking.codes, (edges + np.uint64(1)) << GROUP_SHIFT)
            for number in np.flatnonzero(ends > starts).tolist():
                for place in self._stored[groups[number]]:
                    yield from hits(self._open(place), asking, int(starts[number]), int(ends[number]), limit)
        for segment in self._fresh:
            yield from hits(segment, asking, 0, len(asking), limit)

    def of_groups(self, asking: Segment) -> Iterator[Segment]:
        """Every segment of the key groups of the asking rows."""
        for group in np.unique(asking.codes >> GROUP_SHIFT).tolist():
            yield from (self._open(place) for place in self._stored.get(group, ()))
        yield from self._fresh

    def all(self) -> Iterator[Segment]:
        """Every segment, by key group and age."""
        for group in sorted(self._stored):
            yield from (self._open(place) for place in self._stored[group])
        yield from self._fresh

    def due(self, event: int) -> Iterator[Segment]:
        """Segments that need attention at this event time, and all that came in this epoch."""
        for place in [place for places in self._stored.values() for place in places]:
            if self._dues[place].event <= event:
                segment = self._open(place)
                segment.is_changed = True  # it is due at another time from now on
                yield segment
        yield from self._fresh

    def _open(self, place: PageId) -> Segment:
        if place not in self._opened:
            content = self._index.stored(place)
            index = pa.ipc.read_record_batch(pa.py_buffer(content), INDEX)
            self._opened[place] = Segment.stored(index, lambda: self._load(place))
        return self._opened[place]

    def _load(self, place: PageId) -> pa.RecordBatch:
        content = self._rows.stored(place)
        self._held += len(content)
        if self._held > self._budget:
            # Groups are asked one after the other: rows of those before are hardly needed again, their index is kept.
            for segment in self._opened.values():
                segment.let_go()
            self._held = len(content)
        return pa.ipc.read_record_batch(pa.py_buffer(content), self._schema)

    def flush(self, clock: int, *, attention: Attention, kept: Kept | None = None) -> Due:
        """Write what came and what changed, and drop rows that end before the clock; gives when the first is due."""
        for places in list(self._stored.values()):
            for place in [place for place in places if self._dues[place].expiry < clock]:
                self._remove(place)
        for group, part in self._parts():
            self._append(group, part, clock, attention, kept)
        for place, segment in self._opened.items():
            if segment.is_changed:
                self._write_index(place, segment, attention)
        self._rows.flush()
        return self._index.flush()

    def _parts(self) -> Iterator[tuple[int, Segment]]:
        """What came, cut by key group."""
        if not self._fresh:
            return
        came = merged(self._fresh) if len(self._fresh) > 1 else self._fresh[0]
        rows = came.sorted()
        groups, starts = np.unique(came.codes >> GROUP_SHIFT, return_index=True)
        for group, start, end in zip(groups.tolist(), starts, [*starts[1:], len(came)], strict=False):
            yield group, came.part(slice(start, end), rows.slice(start, end - start))

    def _append(self, group: int, part: Segment, clock: int, attention: Attention, kept: Kept | None) -> None:
        """Write a segment behind those of its group, made one with those before it that are no larger."""
        stored = self._stored.setdefault(group, [])
        # Counted before others are merged into it, so that its page gets the name of none that it replaces.
        number = (stored[-1].page >> _SIZE_BITS) + 1 if stored else 0
        while count := _run(stored, len(part)):
            older = stored[-count:]
            part = merged([*(self._open(place) for place in older), part])
            for place in older:
                self._remove(place)
        needed = part.ends >= clock
        part = without(part, needed if kept is None else needed & kept(part))
        if not len(part):
            return
        place = PageId(group, number << _SIZE_BITS | _size_of(len(part)))
        self._rows.write(place, part.sorted().serialize().to_pybytes(), Due())
        self._write_index(place, part, attention)
        stored.append(place)

    def _write_index(self, place: PageId, segment: Segment, attention: Attention) -> None:
        due = Due(event=attention(segment), expiry=int(segment.ends.max()))
        self._index.write(place, segment.index().serialize().to_pybytes(), due)
        self._dues[place] = due

    def _remove(self, place: PageId) -> None:
        self._stored[place.group].remove(place)
        self._opened.pop(place, None)
        for pages in (self._rows, self._index):
            pages.write(place, None, Due())


def index_uid(uid: str) -> str:
    """Under which name the index of a side's rows is kept."""
    return f"{uid}-index"


def _size_of(rows: int) -> int:
    """The size of a segment as a power of four."""
    return max(0, rows.bit_length() - 1) // 2


def _size(place: PageId) -> int:
    return place.page & ((1 << _SIZE_BITS) - 1)


def _run(stored: list[PageId], rows: int) -> int:
    """How many of the newest segments are to be merged with one of so many rows."""
    count = 0
    while count < len(stored) and _size(stored[-1 - count]) <= min(_size_of(rows), _LARGEST - 1):
        count += 1
    is_small = bool(stored) and _size(stored[-1]) < _SMALL
    return max(count, 1) if is_small else count if count >= _FAN else 0
