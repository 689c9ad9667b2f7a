"""Functions over a stream and a broadcast one: every subtask applies all broadcast rows to a state it holds whole."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millstream.api.functions.broadcast import BroadcastState
from millstream.api.functions.state import states_of
from millstream.errors import StepFailed
from millstream.graph.operations.process import CoProcess
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.counts import StepCounts
from millstream.model.schema import Field, Schema
from millstream.records.batch import from_table
from millstream.records.codecs import batch_to_rows
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.operators.contract import CHUNK, EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.output import RowOutput
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.process.operator import ProcessCalls
from millstream.runtime.taken_rows import taken_from
from millstream.state.entries import Entries, Entry
from millstream.state.pages import Due, PageId
from millstream.state.slots import Store, slots_of, stored_types

SCOPE = Schema((Field("scope", pa.string(), nullable=False),))
ALL_KEYS = ("all",)
SHARED_PAGE = PageId(0, 0)


def broadcast_stores(node: StreamNode) -> tuple[Store, ...]:
    """What such a step keeps: per key, where it has keys, and for all keys."""
    operation = node.operation
    assert isinstance(operation, CoProcess)
    assert node.input_schema is not None
    keyed = Store(uid=node.uid, content=slots_of(operation.states), keys=node.input_schema.select(node.keys))
    shared = Store(uid=broadcast_uid(node), content=slots_of(operation.broadcast), keys=SCOPE, is_broadcast=True)
    return (*((keyed,) if node.keys else ()), *((shared,) if operation.broadcast else ()))


def takes_broadcast(node: StreamNode) -> bool:
    """Whether the second stream of a node reaches every subtask."""
    return node.inputs[1].partition == "broadcast"


def broadcast_uid(node: StreamNode) -> str:
    """Under which name the broadcast state is kept."""
    return f"{node.uid}:broadcast"


class BroadcastOperator:
    """Runs one function over a stream, keyed or not, and a broadcast one."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, CoProcess)
        assert node.input_schema is not None
        self._node, self._operation = node, node.operation
        self._keys = node.input_schema.select(node.keys)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """In each phase the broadcast rows come first; timers that are due run between the phases."""
        keyed = self._paging.entries(work, self._node.uid, self._keys, stored_types(slots_of(self._operation.states)))
        types = stored_types(slots_of(self._operation.broadcast))
        shared = self._paging.entries(work, broadcast_uid(self._node), SCOPE, types)
        calls = _BroadcastCalls(self._node, self._operation, work, keyed, shared.entry(ALL_KEYS, SHARED_PAGE))
        calls.broadcast(work.other_before, work.times.before)
        calls.main(work.before, work.times.before)
        calls.advance(work.times)
        calls.broadcast(work.other_after, work.times.watermark)
        calls.main(work.after, work.times.watermark)
        calls.close()
        shared.flush()
        return keyed.flush() if self._node.keys else Due()


class _BroadcastCalls(ProcessCalls):
    """The calls of one epoch. Only the first subtask emits, counts and refuses what broadcast rows give."""

    def __init__(self, node: StreamNode, operation: CoProcess, work: EpochWork, keyed: Entries, shared: Entry) -> None:
        super().__init__(node, operation, work, keyed)
        self._work = work
        self.is_broadcasting = False
        declared = states_of(operation.function.target)
        for place, state in enumerate(operation.broadcast):
            own = declared[state.name]
            assert isinstance(own, BroadcastState), f"{state.name!r} is declared as broadcast state"
            setattr(self._function, state.name, own.bound_to(_SharedCell(self, shared, place)))

    def main(self, tables: list[pa.Table], watermark: int) -> None:
        """Rows of the stream itself."""
        if self._node.keys:
            self.rows(tables, watermark)
        else:
            self._unkeyed(tables, watermark, self._function.process)

    def broadcast(self, tables: list[pa.Table], watermark: int) -> None:
        """Rows of the broadcast stream."""
        self.is_broadcasting = True
        kept = self._counts, self._bad, self._main, self._context.outputs
        if self._work.subtask:
            self._counts = StepCounts()
            self._bad = Ledger(lambda _: self._counts, self._work.times.now).bad_records(self._node.id, self._on_error)
            nowhere = _Nowhere(MAIN, self._node.outputs[MAIN], self._bad, self._counts, self._work.emit)
            self._main, self._context.outputs = nowhere, dict.fromkeys(self._outputs, nowhere)
        self._unkeyed(tables, watermark, self._function.process_broadcast)
        self._counts, self._bad, self._main, self._context.outputs = kept
        self.is_broadcasting = False

    def _unkeyed(self, tables: list[pa.Table], watermark: int, process: Any) -> None:
        self._context.watermark = watermark
        for table in tables:
            whole = from_table(table)
            for start in range(0, whole.num_rows, CHUNK):
                batch = whole.slice(start, CHUNK)
                nowhere = self._context.entry = _without_key(self._states)
                self._counts.rows_in += batch.num_rows
                times = None if batch.times is None else batch.times.to_pylist()
                self._taken = taken_from(batch)
                self._run_key(process, batch_to_rows(batch.rows), times)
                if nowhere.is_dirty:
                    msg = "keyed state and timers need a key, which neither broadcast rows nor rows without key_by have"
                    raise StepFailed(
                        msg,
                        code="RUN-006",
                        step=self._node.id,
                        hint="call key_by before connect, and use them in process",
                    )


def _without_key(states: tuple[Any, ...]) -> Entry:
    return Entry((), SHARED_PAGE, [None] * len(states), set(), set())


class _Nowhere(RowOutput):
    """Takes rows that another subtask emits."""

    def add(self, row: Any, time: int | None) -> None:
        """Drop a row."""

    def extend(self, rows: list[Any], times: list[int | None]) -> None:
        """Drop rows."""


class _SharedCell:
    """One broadcast state."""

    __slots__ = ("_calls", "_place", "_shared")

    def __init__(self, calls: _BroadcastCalls, shared: Entry, place: int) -> None:
        self._calls, self._shared, self._place = calls, shared, place

    def load(self) -> Any:
        return self._shared.slots[self._place]

    def store(self, content: Any) -> None:
        self._shared.slots[self._place] = content
        self._shared.is_dirty = True

    def require_writable(self) -> None:
        if not self._calls.is_broadcasting:
            msg = "broadcast state is changed by rows of the broadcast stream only: other subtasks would not know"
            raise StepFailed(msg, code="STATE-006", hint="change it in process_broadcast")


BROADCAST_PROCESS = KeyedKind(
    takes=CoProcess,
    when=takes_broadcast,
    operator=BroadcastOperator,
    stores=broadcast_stores,
)
