"""Running aggregates over changes: results change as rows come and go, and a group whose last row goes is deleted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import StepFailed
from millstream.graph.operations.aggregate import ChangingAggregate
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.change import ChangeKind
from millstream.model.schema import HIDDEN
from millstream.records.batch import TIME, from_table
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.exchange.combining import CombiningSender
from millstream.runtime.exchange.senders import Sender
from millstream.runtime.operators.aggregate.operator import EMIT_ROWS, aggregate_texts
from millstream.runtime.operators.aggregate.signed import ROWS, SignedAccumulators
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, SendingEnd, Settings
from millstream.runtime.operators.paging import Paging
from millstream.runtime.operators.shares import Share, shares_of
from millstream.state.columns import ColumnPages
from millstream.state.pages import Due
from millstream.state.slots import Store, key_columns, own_store

_WAS, _NEW = HIDDEN + "was", HIDDEN + "new"
"""How many rows a group had before, and whether any came or went."""


class ChangingAggregateOperator:
    """Keeps, per key, how many rows there are and what they add up to; its sender has combined the changes already."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, ChangingAggregate)
        self._node, self._operation = node, node.operation
        self._accumulators = SignedAccumulators(node)
        self._stored = _columns(node)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Merge what came with what is stored, emit, store."""
        keys = list(self._node.keys)
        merge = self._accumulators.merge
        pages = self._paging.columns(work, self._node, self._stored, lambda rows: merge(rows, keys))
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
        self._refuse_impossible(state)
        state = state.filter(pc.not_equal(state.column(ROWS), 0))
        if is_end:
            state = pa.concat_tables([state, pages.load(share.of(pages.everything()))])
            self._emit(state, work, BEFORE)
            pages.let_go()
            return Due()
        return pages.store(state)

    def _merged(
        self, state: pa.Table, tables: list[pa.Table], pages: ColumnPages, work: EpochWork, phase: int
    ) -> pa.Table:
        came = pa.concat_tables(tables).select(self._stored.names).cast(self._stored)
        known = pa.concat_tables([state, pages.load(pages.touched(came))])
        both = pa.concat_tables([_marked(known, known.column(ROWS), new=False), _marked(came, None, new=True)])
        merged = self._accumulators.merge(both, list(self._node.keys), [(_WAS, "sum"), (_NEW, "max")])
        if self._operation.emit == "epoch":
            self._emit_changes(merged.filter(merged.column(_NEW)), work, phase)
        return merged.drop_columns([_WAS, _NEW])

    def _emit_changes(self, touched: pa.Table, work: EpochWork, phase: int) -> None:
        """What became of the result of each group in which rows came or went; one that came and went again is not told of."""
        was, now = pc.greater(touched.column(_WAS), 0), pc.greater(touched.column(ROWS), 0)
        kinds = pc.if_else(
            now,
            pc.if_else(was, pa.scalar(ChangeKind.UPDATE.value), pa.scalar(ChangeKind.INSERT.value)),
            pa.scalar(ChangeKind.DELETE.value),
        )
        is_told = pc.or_(was, now)
        self._emit(touched.append_column(self._operation.op, kinds).filter(is_told), work, phase)

    def _emit(self, merged: pa.Table, work: EpochWork, phase: int) -> None:
        schema = self._node.outputs[MAIN].arrow
        columns = [merged.column(key) for key in self._node.keys] + self._accumulators.results(merged)
        if self._operation.op in merged.schema.names:
            columns.append(merged.column(self._operation.op))
        rows = pa.table(columns, names=schema.names).cast(schema)
        work.ledger.count(self._node.id).rows_out += rows.num_rows
        if TIME in merged.schema.names:
            rows = rows.append_column(TIME, merged.column(TIME))
        for start in range(0, rows.num_rows, EMIT_ROWS):
            work.emit(MAIN, from_table(rows.slice(start, EMIT_ROWS)), phase)

    def _refuse_impossible(self, state: pa.Table) -> None:
        """A row that goes and never came would leave wrong results for good."""
        wrong = state.filter(self._accumulators.is_impossible(state))
        if wrong.num_rows:
            key = {name: wrong.column(name)[0].as_py() for name in self._node.keys}
            msg = f"other rows of the group {key} went than came"
            found = f"{wrong.column(ROWS)[0].as_py()} rows left"
            hint = (
                "read the table from its beginning (start='snapshot'), and let steps before the aggregate do the same to a "
                "row that goes as to one that comes"
            )
            raise StepFailed(msg, code="CHANGE-012", step=self._node.id, found=found, hint=hint)


def _marked(table: pa.Table, was: pa.ChunkedArray | None, *, new: bool) -> pa.Table:
    before = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows) if was is None else was
    return table.append_column(_WAS, before).append_column(_NEW, pa.repeat(pa.scalar(new), table.num_rows))


def _columns(node: StreamNode) -> pa.Schema:
    return pa.schema([*key_columns(node), *SignedAccumulators(node).part_fields])


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, _columns(node))


def _sender(end: SendingEnd) -> Sender:
    return CombiningSender(end.target, end.outbox, end.node.keys, SignedAccumulators(end.node), end.counts)


def _settings(node: StreamNode) -> Settings:
    assert isinstance(node.operation, ChangingAggregate)
    return {"aggregates": aggregate_texts(node.operation.aggregates, node), "over": "changes"}


CHANGING_AGGREGATE = KeyedKind(
    takes=ChangingAggregate, operator=ChangingAggregateOperator, stores=_stores, sender=_sender, settings=_settings
)
