"""The matching of one epoch: key by key, with the partial matches that are kept and the time that runs out."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.graph.operations.rank import Order
from millstream.graph.step import MAIN, TIMED_OUT
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import MAX_TIME
from millstream.records.batch import from_table
from millstream.records.codecs import batch_to_tuples
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import CHUNK, EpochWork
from millstream.runtime.operators.pattern.chains import RowEvent
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.matching import KeyMatcher, Matched
from millstream.runtime.operators.pattern.results import Results
from millstream.runtime.operators.pattern.waiting import KeyedRows, in_order
from millstream.state.entries import Entries, Entry, Numbers, pages_of
from millstream.state.pages import NEVER
from millstream.state.segment import Places

Examine = Callable[[pa.RecordBatch], tuple[npt.NDArray[np.int64], list[tuple[Any, ...]]]]
PARTIAL = 0
"""The slot of partial matches."""
Piece = tuple[Sequence[RowEvent], bool]
"""The rows of a key as a pattern sees them, and whether one of them can begin a match."""


class Sought(NamedTuple):
    """A pattern that is looked for."""

    program: Program
    matcher: KeyMatcher
    examine: Examine
    """Gives the bits and cells of a batch."""


class Matching:
    """The matching of one epoch."""

    def __init__(
        self,
        node: StreamNode,
        sought: Sequence[Sought],
        results: Mapping[str, Results],
        entries: Entries,
        phase: int = BEFORE,
    ) -> None:
        self._keys, self._sought, self._results, self._entries = node.keys, sought, results, entries
        self._is_timed = bool(node.event_time)
        for result in results.values():
            result.phase = phase

    def advance(self, ready: KeyedRows | None, watermark: int) -> None:
        """Match the rows up to the watermark, key by key, and let time pass."""
        if ready is not None:
            self.match(ready, watermark)
        self._pass_time(watermark, event=watermark, processing=-MAX_TIME)

    def expire(self, now: int) -> None:
        """Without event time: let the clock pass for keys with a deadline."""
        self._pass_time(now, event=-MAX_TIME, processing=now)

    def _pass_time(self, until: int, *, event: int, processing: int) -> None:
        nothing: list[Piece] = [((), False)] * len(self._sought)
        for share in self._entries.due_shares(event=event, processing=processing):
            for entry in share:
                self._match_key(entry.key, entry, nothing, until)

    def match(self, ready: KeyedRows, until: int) -> None:
        """Match rows that are in order, and let time pass for their keys."""
        if not self._sought:
            return
        firsts, most = pa.array(ready.starts), len(ready.starts)
        keys = [ready.rows.column(key).take(firsts) for key in self._keys]
        pages = self._entries.page_numbers(keys, rows=len(firsts))
        if not self._entries.fits(pages):
            ready, pages = ready.by_page(pages)
            most = self._entries.most_pages
        for first, end in ready.chunks(CHUNK, pages, most):
            self._entries.settle()
            self._match_chunk(ready.part(first, end), pages[first:end], until)

    def _match_chunk(self, some: KeyedRows, pages: Numbers, until: int) -> None:
        """Match some keys; one that has neither a partial match nor a row that can begin one is passed by."""
        events, begins = [], []
        batch, times, starts = some
        rows, instants = batch_to_tuples(batch), times.tolist()
        for program, _, examine in self._sought:
            bits, cells = examine(batch)
            events.append(list(zip(range(len(rows)), instants, rows, bits.tolist(), cells, strict=True)))
            begins.append(np.logical_or.reduceat((bits & program.start_mask) != 0, starts).tolist())
        names = self._names(batch, starts)
        bounds = [*starts.tolist(), batch.num_rows]
        for place, (key, page) in enumerate(zip(names, pages_of(pages), strict=True)):
            entry = self._entries.existing(key, page)
            if entry is None and not any(begin[place] for begin in begins):
                continue
            start, stop = bounds[place], bounds[place + 1]
            pieces = [(rows[start:stop], begin[place]) for rows, begin in zip(events, begins, strict=True)]
            kept = self._match_key(key, entry, pieces, until)
            if entry is None and kept is not None:
                self._put(self._entries.entry(key, page), *kept)

    def _names(self, batch: pa.RecordBatch, starts: Places) -> list[tuple[Any, ...]]:
        if not self._keys:
            return [()] * len(starts)
        columns = [batch.column(key).take(pa.array(starts)) for key in self._keys]
        return batch_to_tuples(pa.RecordBatch.from_arrays(columns, names=list(self._keys)))

    def _match_key(
        self, key: tuple[Any, ...], entry: Entry | None, pieces: Sequence[Piece], until: int
    ) -> tuple[dict[str, Any], int] | None:
        """Match the rows of one key; gives what is to be kept of a key that had nothing."""
        held = (entry.slots[PARTIAL] or {}) if entry is not None else {}
        kept: dict[str, Any] = {}
        deadline = NEVER
        for (program, matcher, _), (rows, may_begin) in zip(self._sought, pieces, strict=True):
            saved = held.get(program.version)
            if saved is None and not may_begin:
                continue
            made = matcher.match(saved, rows, until)
            if made.found or made.expired:
                self._give(program, matcher, key, made)
            if made.saved is not None:
                kept[program.version] = made.saved
                deadline = min(deadline, made.deadline)
        if entry is not None:
            self._put(entry, kept, deadline)
        return (kept, deadline) if kept else None

    def _give(self, program: Program, matcher: KeyMatcher, key: tuple[Any, ...], made: Matched) -> None:
        is_timed = self._is_timed
        for output, matches in ((MAIN, made.found), (TIMED_OUT, made.expired)):
            for tail, time in matches:
                self._results[output].add(program, key, matcher.rows(tail), time if is_timed else None)

    def _put(self, entry: Entry, kept: dict[str, Any], deadline: int) -> None:
        entry.slots[PARTIAL] = kept or None
        timers = {deadline} if deadline < NEVER else set()
        if self._is_timed:
            entry.event_timers = timers
        else:
            entry.processing_timers = timers
        entry.is_dirty = True

    def pass_watermark(self) -> None:
        """The watermark has moved: what follows belongs behind it."""
        for result in self._results.values():
            result.flush()
            result.phase = AFTER

    def close(self) -> None:
        """Hand on what is still held."""
        for result in self._results.values():
            result.flush()


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Rows and chains make no cycles, and to look for some among all that an epoch holds takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def match_arrived(node: StreamNode, work: EpochWork, tables: list[pa.Table], matching: Matching, order: Order) -> None:
    """Match rows without event time as they come; all rows of an epoch have the time of its clock."""
    if not tables:
        return
    counts = work.ledger.count(node.id)
    rows = from_table(pa.concat_tables(tables, promote_options="default")).rows
    counts.rows_in += rows.num_rows
    counts.passed += rows.num_rows
    if rows.num_rows:
        times = np.full(rows.num_rows, work.times.now, np.int64)
        matching.match(in_order(rows, times, node.keys, order), work.times.now)
