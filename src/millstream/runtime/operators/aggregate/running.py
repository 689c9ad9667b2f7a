"""Running results after every row: Python reductions, and built-in aggregates with `emit="row"`."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from millstream.graph.operations.aggregate import KeyedAggregate, Reduce
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import Batch
from millstream.records.codecs import batch_to_rows
from millstream.records.value_types import row_type, tuple_of
from millstream.runtime.functions.calls import reduced_row
from millstream.runtime.operators.aggregate.accumulate_values import ValueAccumulators
from millstream.runtime.operators.aggregate.operator import aggregate_settings, emits_by_row
from millstream.runtime.operators.by_key import run_by_key
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, row_settings
from millstream.runtime.operators.grouping import KeyRows
from millstream.runtime.operators.output import RowOutput
from millstream.runtime.operators.paging import Paging
from millstream.state.compat.float_keys import MergeSlots
from millstream.state.pages import Due
from millstream.state.slots import Slot, Store, own_store, stored_types


class RunningFold(Protocol):
    """How a row changes a key's running result."""

    content: Any
    """The type of a key's content."""
    merge: MergeSlots | None
    """Makes the slots of two entries one, where the order in which their rows came does not matter."""

    def inputs(self, rows: pa.RecordBatch) -> list[Any]:
        """What the fold needs of each row."""
        ...

    def step(self, key: tuple[Any, ...], held: Any, came: Any) -> tuple[Any, Any]:
        """The new content and the row to emit."""
        ...


class ReduceFold:
    """`function(so_far, row)`; the first row stands for itself."""

    merge: MergeSlots | None = None

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, Reduce)
        assert node.input_schema is not None
        self._step, self._function = node.id, node.operation.function
        self._names = node.input_schema.names
        self.content = row_type(node.input_schema)

    def inputs(self, rows: pa.RecordBatch) -> list[Any]:
        """The rows themselves."""
        return batch_to_rows(rows)

    def step(self, key: tuple[Any, ...], held: Any, came: Any) -> tuple[Any, Any]:
        """Call the user's function with dicts."""
        made = came
        if held is not None:
            made = reduced_row(self._step, self._function, dict(zip(self._names, held, strict=True)), came)
        return tuple(made.get(name) for name in self._names), made


class AggregateFold:
    """Built-in aggregates, value by value."""

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, KeyedAggregate)
        self._keys, self._names = node.keys, [name for name, _ in node.operation.aggregates]
        fields = [node.outputs[MAIN][name] for name in self._names]
        self._values = ValueAccumulators(node.operation.aggregates, node.expressions, fields, step=node.id)
        self.content = tuple_of(*self._values.state_types)
        self.merge: MergeSlots | None = None if self._values.depends_on_order else self._merged

    def inputs(self, rows: pa.RecordBatch) -> list[Any]:
        """The values to aggregate."""
        return self._values.inputs(rows)

    def step(self, key: tuple[Any, ...], held: Any, came: Any) -> tuple[Any, Any]:
        """Add the values and give the current results."""
        state = list(held) if held is not None else self._values.empty()
        self._values.add(state, came)
        row = dict(zip(self._keys, key, strict=True)) | dict(zip(self._names, self._values.results(state), strict=True))
        return state, row

    def _merged(self, slots: list[Any], others: list[Any]) -> list[Any]:
        state = list(slots[0])
        self._values.merge(state, list(others[0]))
        return [state]


def fold_of(node: StreamNode) -> RunningFold:
    """How a node's rows change its running results."""
    return ReduceFold(node) if isinstance(node.operation, Reduce) else AggregateFold(node)


def running_slots(fold: RunningFold) -> tuple[Slot, ...]:
    """One slot with the running result."""
    return (Slot(name="running", kind="running", content=fold.content),)


class RunningOperator:
    """Folds each row into its key's content and emits the result."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert node.input_schema is not None
        self._node, self._fold = node, fold_of(node)
        self._slots = stored_types(running_slots(self._fold))
        self._keys = node.input_schema.select(node.keys)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Fold rows in the order in which they came to their key."""
        entries = self._paging.entries(work, self._node.uid, self._keys, self._slots, merge=self._fold.merge)
        return run_by_key(work, self._node, entries, self._fold_rows)

    def _fold_rows(self, batch: Batch, pieces: list[KeyRows], out: RowOutput) -> None:
        inputs = self._fold.inputs(batch.rows)
        times = [None] * len(inputs) if batch.times is None else batch.times.to_pylist()
        for start, end, entry in pieces:
            for at in range(start, end):
                entry.slots[0], row = self._fold.step(entry.key, entry.slots[0], inputs[at])
                out.add(row, times[at])
            entry.is_dirty = True


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, running_slots(fold_of(node)))


REDUCE = KeyedKind(takes=Reduce, operator=RunningOperator, stores=_stores, settings=row_settings)
AGGREGATE_BY_ROW = KeyedKind(
    takes=KeyedAggregate,
    when=emits_by_row,
    operator=RunningOperator,
    stores=_stores,
    settings=aggregate_settings,
)
