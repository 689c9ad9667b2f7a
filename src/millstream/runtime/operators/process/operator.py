"""Process functions on keyed state: rows, timers, state cells and side outputs."""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from millstream.api.functions.state import StateCell, ValueState, states_of
from millstream.errors import StepFailed
from millstream.graph.operations.process import CoProcess, Process
from millstream.graph.state import StateDescriptor
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import MAX_TIME, timer_time
from millstream.plan.epoch import EpochTimes
from millstream.records.codecs import batch_to_rows
from millstream.runtime.bad_records import USER_PROBLEMS, BadRecords, user_line
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.grouping import key_rows
from millstream.runtime.operators.output import RowOutput
from millstream.runtime.operators.paging import Paging
from millstream.runtime.taken_rows import TakenRow, taken_from
from millstream.state.entries import Entries, Entry
from millstream.state.pages import Due
from millstream.state.slots import Store, own_store, process_slots, stored_types
from millstream.state.ttl import ExpiringCell, Sweep


class ProcessOperator:
    """Runs one process function. A copy of the function serves each epoch, so nothing leaks between them but state."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, (Process, CoProcess))
        assert node.input_schema is not None
        self._node, self._operation = node, node.operation
        self._keys = node.input_schema.select(node.keys)
        self._slots = stored_types(process_slots(node.operation))
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, due timers in time order, rows after it."""
        entries = self._paging.entries(work, self._node.uid, self._keys, self._slots)
        calls = ProcessCalls(self._node, self._operation, work, entries)
        self._rows(calls, work.before, work.other_before, work.times.before)
        calls.advance(work.times)
        self._rows(calls, work.after, work.other_after, work.times.watermark)
        calls.close()
        return entries.flush()

    def _rows(self, calls: ProcessCalls, rows: list[pa.Table], _: list[pa.Table], watermark: int) -> None:
        calls.rows(rows, watermark)


class ProcessCalls:
    """The calls of one epoch: binds state to the current key and collects what the function emits."""

    def __init__(self, node: StreamNode, operation: Process | CoProcess, work: EpochWork, entries: Entries) -> None:
        self._node, self._entries, self._states = node, entries, operation.states
        self._sweep = Sweep(operation.states)
        entries.event_expiry = self._sweep.event_expiry
        self._on_error = operation.on_error
        self._counts = work.ledger.count(node.id)
        self._bad: BadRecords = work.ledger.bad_records(node.id, operation.on_error)
        self._outputs = {
            name: RowOutput(name, schema, self._bad, self._counts, work.emit)
            for name, schema in node.outputs.items()
            if name == MAIN or name in dict(operation.outputs)
        }
        self._main = self._outputs[MAIN]
        self._taken: Callable[[int], TakenRow]
        self._context = _ProcessContext(self._outputs, work.times.now, node.id, work.params)
        self._function = _bound(operation.function.target, operation.states, self._context)

    def rows(
        self, tables: list[pa.Table], watermark: int, *, keys: tuple[str, ...] | None = None, method: str = "process"
    ) -> None:
        """Call a method of the function for each row, key by key, in the order the rows came."""
        self._context.watermark = watermark
        process = getattr(self._function, method)
        for batch, pieces in key_rows(tables, keys or self._node.keys, self._entries):
            self._counts.rows_in += batch.num_rows
            self._taken = taken_from(batch)
            rows = batch_to_rows(batch.rows)
            times = None if batch.times is None else batch.times.to_pylist()
            for start, end, entry in pieces:
                self._context.entry = entry
                self._run_key(process, rows[start:end], None if times is None else times[start:end], start)

    def _run_key(self, process: Any, rows: list[dict[str, Any]], times: list[int] | None, first: int = 0) -> None:
        """One key's rows, from a place of the batch on. A row that fails half way emits nothing."""
        context = self._context
        made: list[Any] = []
        ends: list[int] = []
        refused = 0
        context.timestamp = None
        for place, row in enumerate(rows):
            if times is not None:
                context.timestamp = times[place]
            try:
                some = process(row, context)
                if some is not None:
                    made.extend(some)
            except USER_PROBLEMS as problem:
                del made[ends[-1] if ends else 0 :]
                refused += 1
                self._bad.refuse(row, problem, taken=self._taken(first + place))
            ends.append(len(made))
        self._counts.passed += len(rows) - refused
        self._main.extend(made, [None] * len(made) if times is None else _spread(times, ends))

    def advance(self, times: EpochTimes) -> None:
        """Fire event-time timers due at the watermark, then processing-time timers due at the clock."""
        self._context.watermark = times.watermark
        self._fire("event_timers", times.watermark)
        self._fire("processing_timers", times.now)
        self._sweep.run(self._entries, now=times.now, watermark=times.watermark)
        for output in self._outputs.values():
            output.advance()

    def _fire(self, kind: str, until: int) -> None:
        """Call due timers in the order of time, those of one instant in the order of their keys' pages.

        Where more keys are due than the budget of state admits, one share of the pages is done after the other.
        """
        is_event = kind == "event_timers"
        event, processing = (until, -MAX_TIME) if is_event else (-MAX_TIME, until)
        for share in self._entries.due_shares(event=event, processing=processing):
            self._fire_share(share, kind, until, is_event=is_event)

    def _fire_share(self, due: list[Entry], kind: str, until: int, *, is_event: bool) -> None:
        """An event-time timer that is set meanwhile and is due already joins them."""
        firing = self._context.firing = _DueTimers(until)
        for entry in due:
            for at in getattr(entry, kind):
                firing.add(at, entry)
        for at, entry in firing:
            timers = getattr(entry, kind)
            if at in timers:
                timers.discard(at)
                entry.is_dirty = True
                self._call_timer(at, entry, at if is_event else None)
        self._context.firing = None

    def _call_timer(self, at: int, entry: Entry, time: int | None) -> None:
        self._context.entry = entry
        self._context.timestamp = time
        try:
            for each in self._function.on_timer(at, self._context) or ():
                self._main.add(each, time)
        except USER_PROBLEMS as problem:
            msg = f"on_timer failed for key {entry.key!r}: {type(problem).__name__}: {problem}{user_line(problem)}"
            raise StepFailed(msg, step=self._node.id, found=f"timer {at}", hint="mend on_timer") from problem

    def close(self) -> None:
        """Hand on what is still held."""
        for output in self._outputs.values():
            output.flush()


def _spread(times: list[int], ends: list[int]) -> list[int | None]:
    """The time of each row's results, from how many there were by the end of each row."""
    if ends[-1] == len(ends) and ends == list(range(1, len(ends) + 1)):
        return list(times)
    return [time for time, start, end in zip(times, [0, *ends], ends, strict=False) for _ in range(end - start)]


class _DueTimers:
    """Timers due until an instant, taken in the order of time; more may be added while they are taken."""

    def __init__(self, until: int) -> None:
        self._until = until
        self._heap: list[tuple[int, int, Entry]] = []
        self._added = 0

    def add(self, at: int, entry: Entry) -> None:
        if at <= self._until:
            self._added += 1
            heapq.heappush(self._heap, (at, self._added, entry))

    def __iter__(self) -> Iterator[tuple[int, Entry]]:
        while self._heap:
            at, _, entry = heapq.heappop(self._heap)
            yield at, entry


class _ProcessContext:
    """What user code sees of the current row; satisfies `api.process.Context`."""

    def __init__(self, outputs: dict[str, RowOutput], now: int, step: str, params: Mapping[str, Any]) -> None:
        self.outputs, self.now, self._step = outputs, now, step
        self.params = MappingProxyType(dict(params))
        self.watermark = 0
        self.timestamp: int | None = None
        self.entry: Entry
        self.firing: _DueTimers | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return self.entry.key

    @property
    def event_now(self) -> int:
        """The event time that state expires by: of the row or timer, where the watermark has not passed the row.

        Timers fire in the order of time as if the watermark were there, so that it does not matter how far it went at once.
        """
        if self.timestamp is None:
            return self.watermark
        return self.timestamp if self.firing is not None else max(self.timestamp, self.watermark)

    def output(self, name: str, row: Any) -> None:
        if name not in self.outputs or name == MAIN:
            known = [output for output in self.outputs if output != MAIN]
            msg = f"no side output {name!r}"
            raise StepFailed(msg, step=self._step, known=known, hint="declare it with process(..., outputs={...})")
        self.outputs[name].add(row, self.timestamp)

    def event_timer(self, at: int) -> None:
        at = timer_time(at, step=self._step)
        self.entry.event_timers.add(at)
        self.entry.is_dirty = True
        if self.firing is not None:
            self.firing.add(at, self.entry)

    def processing_timer(self, at: int) -> None:
        self.entry.processing_timers.add(timer_time(at, step=self._step))
        self.entry.is_dirty = True

    def delete_event_timer(self, at: int) -> None:
        self.entry.event_timers.discard(int(at))
        self.entry.is_dirty = True

    def delete_processing_timer(self, at: int) -> None:
        self.entry.processing_timers.discard(int(at))
        self.entry.is_dirty = True


class _EntryCell:
    """One state of the current key."""

    __slots__ = ("_context", "_place")

    def __init__(self, context: _ProcessContext, place: int) -> None:
        self._context, self._place = context, place

    def load(self) -> Any:
        return self._context.entry.slots[self._place]

    def store(self, content: Any) -> None:
        entry = self._context.entry
        entry.slots[self._place] = content
        entry.is_dirty = True


def _bound(function: Any, states: tuple[StateDescriptor, ...], context: _ProcessContext) -> Any:
    bound = copy.copy(function)
    declared = states_of(function)
    for place, state in enumerate(states):
        cell: StateCell = _EntryCell(context, place) if state.ttl is None else ExpiringCell(context, place, state)
        own = declared[state.name].bound_to(cell)
        if type(own) is ValueState:
            # The hot path of most functions: the state's two methods are the cell's own.
            own.__dict__.update(value=cell.load, update=cell.store)
        setattr(bound, state.name, own)
    return bound


def process_stores(node: StreamNode) -> tuple[Store, ...]:
    """The declared states of each key."""
    assert isinstance(node.operation, (Process, CoProcess))
    return own_store(node, process_slots(node.operation))


PROCESS = KeyedKind(takes=Process, operator=ProcessOperator, stores=process_stores)
