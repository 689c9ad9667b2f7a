"""Running aggregates over changes: results change as rows come and go, and a group whose last row goes is deleted."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import StepFailed
from millstream.graph.operations.aggregate import ChangingAggregate
from millstream.graph.stream_graph import StreamNode
from millstream.model.change import ChangeKind
from millstream.model.schema import HIDDEN
from millstream.runtime.exchange.combining import CombiningSender
from millstream.runtime.exchange.senders import Sender
from millstream.runtime.operators.aggregate.operator import NEW, AggregateOperator, aggregate_columns, aggregate_texts
from millstream.runtime.operators.aggregate.signed import ROWS, SignedAccumulators
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, SendingEnd, Settings
from millstream.state.slots import Store, own_store

_WAS = HIDDEN + "was"
"""How many rows a group had before."""


class ChangingAggregateOperator(AggregateOperator):
    """Keeps, per key, how many rows there are and what they add up to; its sender has combined the changes already."""

    _marks: ClassVar[list[tuple[str, str]]] = [(_WAS, "sum"), (NEW, "max")]

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, ChangingAggregate)
        self._op, self._signed = node.operation.op, SignedAccumulators(node)
        super().__init__(node, key_groups=key_groups, page_bytes=page_bytes)

    def _accumulated(self, node: StreamNode) -> SignedAccumulators:
        return self._signed

    def _settled(self, state: pa.Table) -> pa.Table:
        """Groups in which rows are left."""
        self._refuse_impossible(state)
        return state.filter(pc.not_equal(state.column(ROWS), 0))

    def _marked(self, table: pa.Table, *, new: bool) -> pa.Table:
        was = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows) if new else table.column(ROWS)
        return super()._marked(table.append_column(_WAS, was), new=new)

    def _emit_touched(self, touched: pa.Table, work: EpochWork, phase: int) -> None:
        """What became of the result of each group in which rows came or went; one that came and went again is not told of."""
        was, now = pc.greater(touched.column(_WAS), 0), pc.greater(touched.column(ROWS), 0)
        kinds = pc.if_else(
            now,
            pc.if_else(was, pa.scalar(ChangeKind.UPDATE.value), pa.scalar(ChangeKind.INSERT.value)),
            pa.scalar(ChangeKind.DELETE.value),
        )
        is_told = pc.or_(was, now)
        self._emit(touched.append_column(self._op, kinds).filter(is_told), work, phase)

    def _refuse_impossible(self, state: pa.Table) -> None:
        """A row that goes and never came would leave wrong results for good."""
        wrong = state.filter(self._signed.is_impossible(state))
        if wrong.num_rows:
            key = {name: wrong.column(name)[0].as_py() for name in self._node.keys}
            msg = f"other rows of the group {key} went than came"
            found = f"{wrong.column(ROWS)[0].as_py()} rows left"
            hint = (
                "read the table from its beginning (start='snapshot'), and let steps before the aggregate do the same to a "
                "row that goes as to one that comes"
            )
            raise StepFailed(msg, code="CHANGE-012", step=self._node.id, found=found, hint=hint)


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, aggregate_columns(node, SignedAccumulators(node)))


def _sender(end: SendingEnd) -> Sender:
    return CombiningSender(end.target, end.outbox, end.node.keys, SignedAccumulators(end.node), end.counts)


def _settings(node: StreamNode) -> Settings:
    assert isinstance(node.operation, ChangingAggregate)
    return {"aggregates": aggregate_texts(node.operation.aggregates, node), "over": "changes"}


CHANGING_AGGREGATE = KeyedKind(
    takes=ChangingAggregate, operator=ChangingAggregateOperator, stores=_stores, sender=_sender, settings=_settings
)
