"""The best rows of each key: `top_n`, and `deduplicate` where the row that stays may change. Columnar, whole keys at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.graph.rank import Deduplicate, TopN
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import HIDDEN
from millstream.runtime.batch import TIME, Batch
from millstream.runtime.columns import ColumnPages
from millstream.runtime.exchange import AFTER, BEFORE
from millstream.runtime.joins.pairs import event_times
from millstream.runtime.keyed import Turn
from millstream.runtime.pages import Due, StepPages
from millstream.runtime.ranking import Numbers, Ranking, newest_times, times_of
from millstream.runtime.shares import Share, shares_of

_RANK = HIDDEN + "rank"
_EMIT_ROWS = 131_072


def ranked_columns(node: StreamNode) -> pa.Schema:
    """What is stored: the rows that stay, their event time and their rank when it was last said."""
    assert node.input_schema is not None
    fields = [pa.field(field.name, field.type) for field in node.input_schema]
    return pa.schema([*fields, pa.field(TIME, pa.int64()), pa.field(_RANK, pa.int64())])


class RankOperator:
    """Ranks the kept rows of each key together with those that came, and keeps the first N of them."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, (TopN, Deduplicate))
        self._node, self._operation = node, node.operation
        self._stored = ranked_columns(node)
        self._key_groups, self._page_bytes = key_groups, page_bytes
        self._ranking = Ranking(node)

    def run(self, turn: Turn) -> Due:
        """Rank what came, emit what changed, store."""
        pages = ColumnPages(
            StepPages(turn.store, self._node.uid),
            self._stored,
            self._node.keys,
            key_groups=self._key_groups,
            page_bytes=self._page_bytes,
        )
        is_end = self._operation.emit == "end" and turn.times.terminal
        due = Due()
        for share in shares_of(turn, pages, pages.everything() if is_end else set()):
            due = self._run_share(share, pages, turn, is_end=is_end)
        return due

    def _run_share(self, share: Share, pages: ColumnPages, turn: Turn, *, is_end: bool) -> Due:
        state = self._stored.empty_table()
        for phase, tables in ((BEFORE, share.before), (AFTER, share.after)):
            if tables:
                state = self._taken(state, tables, pages, turn, phase)
        if is_end:
            state = pa.concat_tables([state, pages.load(share.of(pages.everything()))])
            self._emit(state, np.asarray(state.column(TIME).combine_chunks()), turn, BEFORE)
            pages.let_go()
            return Due()
        return pages.store(state)

    def _taken(self, state: pa.Table, tables: list[pa.Table], pages: ColumnPages, turn: Turn, phase: int) -> pa.Table:
        came = self._came(tables)
        known = pa.concat_tables([state, pages.load(pages.touched(came))])
        both = pa.concat_tables([known, came]).combine_chunks()
        ranked = self._ranking.of(both)
        # The time of a change is that of the newest row of its key: the row may have come long before.
        newest = ranked.highest(np.concatenate([np.asarray(known.column(TIME).combine_chunks()), newest_times(tables)]))
        stays = ranked.ranks <= self._ranking.n
        ranks, newest = ranked.ranks[stays], newest[stays]
        kept = both.take(pa.array(ranked.order[stays]))
        is_changed = np.asarray(kept.column(_RANK).combine_chunks()) != ranks
        place = self._stored.get_field_index(_RANK)
        kept = kept.set_column(place, self._stored.field(place), pa.array(ranks))
        if self._operation.emit == "epoch":
            self._emit(kept.filter(pa.array(is_changed)), newest[is_changed], turn, phase)
        return kept

    def _came(self, tables: list[pa.Table]) -> pa.Table:
        """New rows in the columns of the stored ones; their rank is not known yet."""
        table = pa.concat_tables(tables, promote_options="default")
        nothing = pa.array(np.zeros(table.num_rows, np.int64))
        times = pa.array(times_of(table))
        columns = [table.column(name) for name in self._stored.names[:-2]]
        return pa.table([*columns, times, nothing], schema=self._stored)

    def _emit(self, table: pa.Table, times: Numbers, turn: Turn, phase: int) -> None:
        """Rows by key and rank."""
        schema = self._node.outputs[MAIN].arrow
        names = self._stored.names[:-2]
        columns = [table.column(name) for name in names]
        if isinstance(self._operation, TopN):
            columns.append(table.column(_RANK))
        turn.hands.count(self._node.id).rows_out += table.num_rows
        rows = pa.table(columns, schema=schema).combine_chunks()
        for start in range(0, rows.num_rows, _EMIT_ROWS):
            batch = rows.slice(start, _EMIT_ROWS).to_batches()[0]
            turn.emit(MAIN, Batch(batch, event_times(times[start : start + _EMIT_ROWS])), phase)
