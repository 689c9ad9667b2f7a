"""Windows that fire when their trigger says so. Everything that is decided follows from the epoch plan, state and rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from millstream.graph.operations.window import Window
from millstream.graph.step import LATE
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import Batch
from millstream.records.codecs import batch_to_rows
from millstream.records.value_types import list_of, tuple_of
from millstream.runtime.bad_records import failure
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.grouping import key_rows
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.window.choice import is_triggered, window_of
from millstream.runtime.operators.window.open_windows import Assigner, assigner_of
from millstream.runtime.operators.window.settings import window_settings
from millstream.runtime.operators.window.triggered.adding import WindowAdding
from millstream.runtime.operators.window.triggered.calls import WindowCalls
from millstream.runtime.operators.window.triggered.contents import TriggeredContents
from millstream.runtime.operators.window.triggered.firing import WindowFiring
from millstream.runtime.operators.window.triggered.triggers import trigger_spec, trigger_types
from millstream.runtime.operators.window.triggered.windows import OpenWindow
from millstream.state.entries import Entries
from millstream.state.pages import Due
from millstream.state.slots import Slot, Store, own_store, slots_of, stored_types
from millstream.state.ttl import Sweep


def triggered_slots(node: StreamNode) -> tuple[Slot, ...]:
    """The states of the key, then the list of open windows."""
    return _slots(window_of(node), TriggeredContents(node))


def _slots(operation: Window, contents: TriggeredContents) -> tuple[Slot, ...]:
    trigger = tuple_of(*(kind | None for kind in trigger_types(trigger_spec(operation))))
    state = tuple_of(*(each.content | None for each in operation.window_states))
    generic: Any = OpenWindow
    windows = list_of(generic[contents.type, trigger, state])
    return (*slots_of(operation.key_states), Slot(name="windows", kind="windows", content=windows))


class TriggeredWindowOperator:
    """Open windows per key, with trigger, pane and state; see `WindowFiring` for what happens when time goes on."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Window)
        assert node.input_schema is not None
        self._node, self._operation = node, node.operation
        self._contents = TriggeredContents(node)
        self._spec = trigger_spec(node.operation)
        self._needs_rows = self._contents.needs_rows or bool(self._spec.functions)
        self._needs_times = node.operation.window.is_event_timed or self._spec.needs_event_time
        self._assign = _assigner(node.operation)
        self._types = stored_types(_slots(node.operation, self._contents))
        self._keys = node.input_schema.select(node.keys)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, then what time brings, then rows after it."""
        entries = self._paging.entries(work, self._node.uid, self._keys, self._types)
        sweep = Sweep(self._operation.key_states)
        entries.event_expiry = sweep.event_expiry
        calls = WindowCalls(self._node, self._contents, work)
        self._rows(work, work.before, work.times.before, entries, calls, BEFORE)
        WindowFiring(calls, entries, work.times).run()
        if self._operation.key_states:
            sweep.run(entries, now=work.times.now, watermark=work.times.watermark)
        calls.advance()
        self._rows(work, work.after, work.times.watermark, entries, calls, AFTER)
        calls.flush()
        return entries.flush()

    def _rows(
        self, work: EpochWork, tables: list[pa.Table], watermark: int, entries: Entries, calls: WindowCalls, phase: int
    ) -> None:
        counts = work.ledger.count(self._node.id)
        calls.scope.watermark, calls.scope.clock = watermark, work.times.now
        for batch, pieces in key_rows(tables, self._node.keys, entries):
            rows = batch_to_rows(batch.rows) if self._needs_rows else [{}] * batch.num_rows
            times = self._times(batch)
            values = self._contents.values_of(batch.rows)
            late = []
            for start, end, entry in pieces:
                adding = WindowAdding(calls, entry, self._assign)
                late += [at for at in range(start, end) if not adding.add(rows[at], times[at], values[at])]
                adding.settle()
            counts.rows_in += batch.num_rows
            counts.late += len(late)
            counts.passed += batch.num_rows - len(late)
            if late:
                work.emit(LATE, batch.take(np.array(late)), phase)

    def _times(self, batch: Batch) -> list[Any]:
        is_timed = batch.times is not None and not batch.times.null_count
        if self._needs_times and not is_timed:
            raise failure(
                self._node.id, f"a batch of {batch.num_rows} rows", "a row without event time reached a window"
            )
        return [None] * batch.num_rows if batch.times is None else list(batch.times.to_pylist())


def _assigner(operation: Window) -> Assigner | None:
    """The windows of an instant; `None` where there is one for all rows."""
    return assigner_of(operation.window) if operation.window.has_bounds else None


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, triggered_slots(node))


TRIGGERED_WINDOW = KeyedKind(
    takes=Window,
    when=is_triggered,
    operator=TriggeredWindowOperator,
    stores=_stores,
    settings=window_settings,
)
