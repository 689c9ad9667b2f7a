"""Running built-in aggregates per key: merged vectorised, emitted once per epoch or at the end of the input."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import pyarrow as pa

from millstream.graph.operations.aggregate import Aggregate, ChangingAggregate, KeyedAggregate
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import HIDDEN
from millstream.model.types import type_name
from millstream.records.batch import TIME, from_table
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.exchange.combining import CombiningSender
from millstream.runtime.exchange.senders import Sender
from millstream.runtime.operators.aggregate.accumulate import Accumulators
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, SendingEnd, Settings
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.shares import Share, shares_of
from millstream.state.columns import ColumnPages
from millstream.state.pages import Due
from millstream.state.slots import Store, key_columns, own_store

NEW = HIDDEN + "new"
"""Whether rows of a group came or went."""
EMIT_ROWS = 131_072


def accumulators_of(node: StreamNode) -> Accumulators:
    """The aggregates of a keyed aggregate or window node."""
    operation = node.operation
    aggregates = operation.aggregates  # type: ignore[attr-defined]
    schema = node.outputs[MAIN]
    is_running = isinstance(operation, KeyedAggregate) or not operation.window.is_event_timed  # type: ignore[attr-defined]
    keeps_time = is_running and bool(node.event_time)
    outputs = [schema[name] for name, _ in aggregates]
    return Accumulators(aggregates, node.expressions, outputs, step=node.id, keeps_time=keeps_time)


class MergingAccumulators(Protocol):
    """What an operator needs of aggregates whose partial results are columns."""

    @property
    def depends_on_order(self) -> bool:
        """Whether partial results differ by the order of rows."""
        ...

    @property
    def part_fields(self) -> list[pa.Field]:
        """The columns of partial results."""
        ...

    def merge(self, table: pa.Table, by: list[str], extra: list[tuple[str, str]] | None = None) -> pa.Table:
        """Partial results of each group as one."""
        ...

    def results(self, table: pa.Table) -> list[Any]:
        """The results of each group."""
        ...


def aggregate_columns(node: StreamNode, accumulators: MergingAccumulators) -> pa.Schema:
    """What is stored: a row per key."""
    return pa.schema([*key_columns(node), *accumulators.part_fields])


class AggregateOperator:
    """Keeps partial results per key; its sender has combined the rows already."""

    _marks: ClassVar[list[tuple[str, str]]] = [(NEW, "max")]

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, KeyedAggregate)
        assert node.input_schema is not None
        self._node, self._operation = node, node.operation
        self._accumulators = self._accumulated(node)
        self._stored = aggregate_columns(node, self._accumulators)
        self._paging = Paging(key_groups, page_bytes)

    def _accumulated(self, node: StreamNode) -> MergingAccumulators:
        return accumulators_of(node)

    def run(self, work: EpochWork) -> Due:
        """Merge what came with what is stored, emit, store."""
        accumulators, keys = self._accumulators, list(self._node.keys)
        pages = self._paging.columns(
            work,
            self._node,
            self._stored,
            lambda rows: accumulators.merge(rows, keys),
            is_merged=not accumulators.depends_on_order,
        )
        is_end = self._operation.emit == "end" and work.times.terminal
        due = Due()
        for share in shares_of(work, pages, pages.everything() if is_end else set()):
            due = self._run_share(share, pages, work, is_end=is_end)
        return due

    def _run_share(self, share: Share, pages: ColumnPages, work: EpochWork, *, is_end: bool) -> Due:
        state = self._stored.empty_table()
        for phase, tables in ((BEFORE, share.before), (AFTER, share.after)):
            if tables:
                state = self._merged(state, tables, pages, work, phase)
        state = self._settled(state)
        if is_end:
            state = pa.concat_tables([state, pages.load(share.of(pages.everything()))])
            self._emit(state, work, BEFORE)
            pages.let_go()
            return Due()
        return pages.store(state)

    def _settled(self, state: pa.Table) -> pa.Table:
        """The state once all rows of an epoch are in it."""
        return state

    def _merged(
        self, state: pa.Table, tables: list[pa.Table], pages: ColumnPages, work: EpochWork, phase: int
    ) -> pa.Table:
        came = pa.concat_tables(tables).select(self._stored.names).cast(self._stored)
        known = pa.concat_tables([state, pages.load(pages.touched(came))])
        both = pa.concat_tables([self._marked(known, new=False), self._marked(came, new=True)])
        merged = self._accumulators.merge(both, list(self._node.keys), self._marks)
        if self._operation.emit == "epoch":
            self._emit_touched(merged.filter(merged.column(NEW)), work, phase)
        return merged.drop_columns([name for name, _ in self._marks])

    def _marked(self, table: pa.Table, *, new: bool) -> pa.Table:
        """Rows with what has to be known of them behind the merge; `_marks` says how that is merged."""
        return table.append_column(NEW, pa.repeat(pa.scalar(new), table.num_rows))

    def _emit_touched(self, touched: pa.Table, work: EpochWork, phase: int) -> None:
        self._emit(touched, work, phase)

    def _emit(self, merged: pa.Table, work: EpochWork, phase: int) -> None:
        """Results carry the newest event time of their rows, as the row that changed them would."""
        schema = self._node.outputs[MAIN].arrow
        columns = [merged.column(key) for key in self._node.keys] + self._accumulators.results(merged)
        columns += [merged.column(name) for name in schema.names[len(columns) :]]
        rows = pa.table(columns, names=schema.names).cast(schema)
        work.ledger.count(self._node.id).rows_out += rows.num_rows
        if TIME in merged.schema.names:
            rows = rows.append_column(TIME, merged.column(TIME))
        for start in range(0, rows.num_rows, EMIT_ROWS):
            work.emit(MAIN, from_table(rows.slice(start, EMIT_ROWS)), phase)


def aggregate_texts(aggregates: tuple[tuple[str, Aggregate], ...], node: StreamNode) -> list[str]:
    """What is stored for each aggregate, in words."""
    return [_aggregate_text(name, aggregate, node) for name, aggregate in aggregates]


def _aggregate_text(name: str, aggregate: Aggregate, node: StreamNode) -> str:
    of = f" of {type_name(dict(node.expressions)[name].type)}" if aggregate.kind == "count_distinct" else ""
    where = "" if aggregate.where is None else " where"
    return f"{name} = {aggregate.kind}{of}{where} as {node.outputs[MAIN][name].type_name}"


def aggregate_settings(node: StreamNode) -> Settings:
    """What is stored depends on the aggregates."""
    assert isinstance(node.operation, KeyedAggregate)
    return {"aggregates": aggregate_texts(node.operation.aggregates, node)}


def emits_by_row(node: StreamNode) -> bool:
    """Whether results are emitted after every row, so that rows cannot be combined before the shuffle."""
    assert isinstance(node.operation, KeyedAggregate)
    return node.operation.emit == "row"


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, aggregate_columns(node, accumulators_of(node)))


def _sender(end: SendingEnd) -> Sender:
    return CombiningSender(end.target, end.outbox, end.node.keys, accumulators_of(end.node), end.counts)


AGGREGATE = KeyedKind(
    takes=KeyedAggregate,
    when=lambda node: not emits_by_row(node) and not isinstance(node.operation, ChangingAggregate),
    operator=AggregateOperator,
    stores=_stores,
    sender=_sender,
    settings=aggregate_settings,
)
