"""The first row of each key to come: only the keys that were seen are kept, in segments that are never written anew."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.graph.operations.rank import Deduplicate
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import Batch, from_table
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.grouping import key_codes
from millstream.runtime.operators.join.keys import same_or_null
from millstream.runtime.operators.rank.operator import is_first_come, rank_settings
from millstream.state.pages import NEVER, Due
from millstream.state.segment import INDEX, Codes, Flags, Segment, codes_of
from millstream.state.segments import Segments, index_uid
from millstream.state.slots import Store, key_columns

_MANY = 1 << 20


def seen_stores(node: StreamNode) -> tuple[Store, ...]:
    """The keys that were seen, and their index."""
    assert node.input_schema is not None
    keys, uid = node.input_schema.select(node.keys), seen_uid(node)
    return (
        Store(uid=uid, content=pa.schema(key_columns(node)), keys=keys),
        Store(uid=index_uid(uid), content=INDEX, keys=keys),
    )


def seen_uid(node: StreamNode) -> str:
    """Under which name the keys are kept."""
    return f"{node.uid}:seen"


class FirstRowOperator:
    """Emits the first row of each key and drops the others; with a time to live a key may come again later."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        del page_bytes  # segments grow as keys come, and are not divided
        assert isinstance(node.operation, Deduplicate)
        self._node, self._ttl, self._key_groups = node, node.operation.ttl, key_groups
        self._columns = pa.schema(key_columns(node))

    def run(self, work: EpochWork) -> Due:
        """Rows of both phases, in their order."""
        seen = Segments(
            work.store, seen_uid(self._node), self._columns, keys=self._node.keys, state_bytes=work.state_bytes
        )
        for phase, tables in ((BEFORE, work.before), (AFTER, work.after)):
            if tables:
                self._take(from_table(pa.concat_tables(tables, promote_options="default")), seen, work, phase)
        seen.flush(work.times.now, attention=lambda _: NEVER)
        return Due()

    def _take(self, batch: Batch, seen: Segments, work: EpochWork, phase: int) -> None:
        numbers, _ = key_codes(pa.Table.from_batches([batch.rows]), self._node.keys)
        came = batch.take(np.sort(np.unique(numbers, return_index=True)[1]))
        keys = pa.RecordBatch.from_arrays([came.rows.column(key) for key in self._node.keys], schema=self._columns)
        codes = codes_of(keys.columns, self._key_groups)
        is_known = self._known(keys, codes, seen, work.times.now)
        new = came.filter(pa.array(~is_known))
        end = NEVER if self._ttl is None else work.times.now + self._ttl - 1
        nothing = np.zeros(new.num_rows, np.int64)
        seen.add(Segment.arrived(keys.filter(pa.array(~is_known)), codes[~is_known], nothing, nothing + end))
        counts = work.ledger.count(self._node.id)
        counts.rows_in += batch.num_rows
        counts.passed += new.num_rows
        counts.filtered += batch.num_rows - new.num_rows
        counts.rows_out += new.num_rows
        if new.num_rows:
            work.emit(MAIN, new, phase)

    def _known(self, keys: pa.RecordBatch, codes: Codes, seen: Segments, now: int) -> Flags:
        nothing = np.zeros(keys.num_rows, np.int64)
        asking = Segment.arrived(keys, codes, nothing, nothing)
        known: Flags = np.zeros(keys.num_rows, np.bool_)
        for pairs in seen.find(asking, _MANY):
            holds = pairs.segment.ends[pairs.places] >= now
            mine, theirs = asking.take(pairs.asking), pairs.segment.take(pairs.places)
            for key in self._node.keys:
                holds &= same_or_null(mine.column(key), theirs.column(key))
            known[asking.origins(pairs.asking[holds])] = True
        return known


FIRST_ROW = KeyedKind(
    takes=Deduplicate,
    when=is_first_come,
    operator=FirstRowOperator,
    stores=seen_stores,
    settings=rank_settings,
)
