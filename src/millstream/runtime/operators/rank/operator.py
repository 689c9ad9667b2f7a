"""The best rows of each key: `top_n`, and `deduplicate` where the row that stays may change. Columnar, whole keys at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from millstream.graph.operations.rank import Deduplicate, TopN
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import HIDDEN
from millstream.records.batch import TIME, Batch
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.exchange.ranking import RankingSender
from millstream.runtime.exchange.senders import Sender
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, SendingEnd, Settings
from millstream.runtime.operators.join.pairs import event_times
from millstream.runtime.operators.rank.order import KeyRanking, Numbers, newest_times, times_of
from millstream.state.compat.float_keys import several_forms
from millstream.state.pages import NEVER, Due
from millstream.state.segment import INDEX, Places, Segment, codes_of
from millstream.state.segments import Segments, index_uid
from millstream.state.slots import Store

_RANK = HIDDEN + "rank"
_EMIT_ROWS = 131_072
_MANY = 1 << 20


class _Held(NamedTuple):
    """Kept rows whose keys something came for."""

    segment: Segment
    places: Places

    def alive(self) -> _Held:
        """Those that were not marked."""
        return _Held(self.segment, self.places[~self.segment.matched[self.places]])


def ranked_columns(node: StreamNode) -> pa.Schema:
    """What is stored: the rows that stay, their event time and their rank when it was last said."""
    assert node.input_schema is not None
    fields = [pa.field(field.name, field.type) for field in node.input_schema]
    return pa.schema([*fields, pa.field(TIME, pa.int64()), pa.field(_RANK, pa.int64())])


def ranked_stores(node: StreamNode) -> tuple[Store, ...]:
    """The rows that stay, and their index."""
    assert node.input_schema is not None
    keys, uid = node.input_schema.select(node.keys), ranked_uid(node)
    return (
        Store(uid=uid, content=ranked_columns(node), keys=keys),
        Store(uid=index_uid(uid), content=INDEX, keys=keys),
    )


def ranked_uid(node: StreamNode) -> str:
    """Under which name the rows are kept."""
    return f"{node.uid}:best"


class RankOperator:
    """Ranks the kept rows of each key together with those that came, and keeps the first N of them.

    Rows lie in segments that are never written anew: a row that goes, or gets another rank, is marked in the index, and left
    out when segments are merged. Keys that nothing came for are not read.
    """

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        del page_bytes  # segments grow as rows come, and are not divided
        assert isinstance(node.operation, (TopN, Deduplicate))
        self._node, self._operation, self._key_groups = node, node.operation, key_groups
        self._stored = ranked_columns(node)
        self._ranking = KeyRanking(node)

    def run(self, work: EpochWork) -> Due:
        """Rank what came, emit what changed, store."""
        kept = Segments(
            work.store, ranked_uid(self._node), self._stored, keys=self._node.keys, state_bytes=work.state_bytes
        )
        if kept.is_rekeyed:
            self._rank_anew(kept, work)
        for phase, tables in ((BEFORE, work.before), (AFTER, work.after)):
            if tables:
                self._take(tables, kept, work, phase)
        if self._operation.emit == "end" and work.times.terminal:
            self._emit_all(kept, work)
            return Due()
        return kept.flush(work.times.now, attention=lambda _: NEVER, kept=lambda segment: ~segment.matched)

    def _take(self, tables: list[pa.Table], kept: Segments, work: EpochWork, phase: int) -> None:
        came = self._came(tables)
        codes = codes_of([came.column(key) for key in self._node.keys], self._key_groups)
        held = [_Held(pairs.segment, pairs.places) for pairs in kept.find(Segment(np.unique(codes)), _MANY)]
        held = [each.alive() for each in held]
        known = pa.Table.from_batches([each.segment.take(each.places) for each in held], self._stored)
        both = pa.concat_tables([known, came]).combine_chunks()
        ranked = self._ranking.of(both)
        # The time of a change is that of the newest row of its key: the row may have come long before.
        newest = ranked.highest(np.concatenate([times_of(known), newest_times(tables)]))
        stays = ranked.ranks <= self._ranking.n
        places, ranks = ranked.order[stays], ranked.ranks[stays]
        is_changed = np.asarray(both.column(_RANK).combine_chunks())[places] != ranks
        self._forget(held, places[~is_changed])
        changed = both.take(pa.array(places[is_changed]))
        column = self._stored.get_field_index(_RANK)
        changed = changed.set_column(column, self._stored.field(column), pa.array(ranks[is_changed]))
        self._keep(changed, kept)
        if self._operation.emit == "epoch":
            self._emit(changed, newest[stays][is_changed], work, phase)

    def _rank_anew(self, kept: Segments, work: EpochWork) -> None:
        """Keys that were stored in several forms have several first rows: what they kept is ranked together."""
        live = [(segment, np.flatnonzero(~segment.matched)) for segment in kept.all()]
        column = self._stored.get_field_index(_RANK)
        firsts = [segment.codes[at[np.asarray(segment.take(at).column(column)) == 1]] for segment, at in live]
        codes, counts = np.unique(np.concatenate([np.empty(0, np.uint64), *firsts]), return_counts=True)
        doubled = [(segment, at[np.isin(segment.codes[at], codes[counts > 1])]) for segment, at in live]
        rows = pa.Table.from_batches([segment.take(places) for segment, places in doubled], self._stored)
        if not rows.num_rows:
            return
        if self._operation.by is None:
            key = tuple(rows.column(name)[0].as_py() for name in self._node.keys)
            raise several_forms(self._node.uid, [key])
        for segment, places in doubled:
            segment.mark(places)
        self._take([rows], kept, work, BEFORE)

    @staticmethod
    def _forget(held: list[_Held], unchanged: Numbers) -> None:
        """Mark the kept rows that go, and those that are kept anew with another rank."""
        goes = np.ones(sum(len(each.places) for each in held), np.bool_)
        goes[unchanged] = False
        start = 0
        for each in held:
            here = goes[start : start + len(each.places)]
            start += len(each.places)
            each.segment.mark(each.places[here])

    def _keep(self, rows: pa.Table, kept: Segments) -> None:
        for batch in rows.combine_chunks().to_batches():
            codes = codes_of([batch.column(key) for key in self._node.keys], self._key_groups)
            kept.add(
                Segment.arrived(batch, codes, times_of(pa.Table.from_batches([batch])), np.full(len(codes), NEVER))
            )

    def _emit_all(self, kept: Segments, work: EpochWork) -> None:
        live = [segment.take(np.flatnonzero(~segment.matched)) for segment in kept.all()]
        state = pa.Table.from_batches(live, self._stored)
        self._emit(state, times_of(state), work, BEFORE)

    def _came(self, tables: list[pa.Table]) -> pa.Table:
        """New rows in the columns of the stored ones; their rank is not known yet."""
        table = pa.concat_tables(tables, promote_options="default")
        nothing = pa.array(np.zeros(table.num_rows, np.int64))
        times = pa.array(times_of(table))
        columns = [table.column(name) for name in self._stored.names[:-2]]
        return pa.table([*columns, times, nothing], schema=self._stored)

    def _emit(self, table: pa.Table, times: Numbers, work: EpochWork, phase: int) -> None:
        """Rows by key and rank."""
        schema = self._node.outputs[MAIN].arrow
        names = self._stored.names[:-2]
        columns = [table.column(name) for name in names]
        if isinstance(self._operation, TopN):
            columns.append(table.column(_RANK))
        work.ledger.count(self._node.id).rows_out += table.num_rows
        rows = pa.table(columns, schema=schema).combine_chunks()
        for start in range(0, rows.num_rows, _EMIT_ROWS):
            batch = rows.slice(start, _EMIT_ROWS).to_batches()[0]
            work.emit(MAIN, Batch(batch, event_times(times[start : start + _EMIT_ROWS])), phase)


def is_first_come(node: StreamNode) -> bool:
    """Whether the first row of a key stays for good, so that nothing has to be ranked."""
    assert isinstance(node.operation, Deduplicate)
    return node.operation.is_first_come


def rank_settings(node: StreamNode) -> Settings:
    """What is stored depends on the order, and on how many rows are kept."""
    operation = node.operation
    assert isinstance(operation, (TopN, Deduplicate))
    return {"by": operation.by, "keeps": operation.n if isinstance(operation, TopN) else operation.keep}


def _sender(end: SendingEnd) -> Sender:
    return RankingSender(end.rows, KeyRanking(end.node), end.counts, end.payload_bytes)


TOP_N = KeyedKind(
    takes=TopN,
    operator=RankOperator,
    stores=ranked_stores,
    sender=_sender,
    settings=rank_settings,
)
DEDUPLICATE = KeyedKind(
    takes=Deduplicate,
    when=lambda node: not is_first_come(node),
    operator=RankOperator,
    stores=ranked_stores,
    sender=_sender,
    settings=rank_settings,
)
