"""Keeps the same share of the rows of each key: which ones follows from their number in the key, not from chance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.graph.operations.sample import MILLION, Sample
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import Batch
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.grouping import KeyRows, key_rows
from millstream.runtime.operators.paging import Paging
from millstream.state.pages import Due
from millstream.state.slots import Slot, Store, own_store, stored_types

_SLOTS = (Slot(name="rows", kind="running", content=int),)


class SampleOperator:
    """Counts the rows of each key and passes on every so many-th, the first one included."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, Sample)
        assert node.input_schema is not None
        self._node, self._share = node, node.operation.per_million
        self._keys = node.input_schema.select(node.keys)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Rows before the watermark, then rows after it; there is nothing to fire."""
        entries = self._paging.entries(work, self._node.uid, self._keys, stored_types(_SLOTS), is_trusted=True)
        counts = work.ledger.count(self._node.id)
        for phase, tables in ((BEFORE, work.before), (AFTER, work.after)):
            for batch, pieces in key_rows(tables, self._node.keys, entries):
                kept = self._kept(batch, pieces)
                counts.rows_in += batch.num_rows
                counts.passed += kept.num_rows
                counts.filtered += batch.num_rows - kept.num_rows
                counts.rows_out += kept.num_rows
                if kept.num_rows:
                    work.emit(MAIN, kept, phase)
        return entries.flush()

    def _kept(self, batch: Batch, pieces: list[KeyRows]) -> Batch:
        """Row n of a key, counted from 0, stays when n times the share goes over into the next whole row."""
        numbers = np.arange(batch.num_rows, dtype=np.int64)
        for start, end, entry in pieces:
            before = entry.slots[0] or 0
            numbers[start:end] += before - start
            entry.slots[0] = before + end - start
            entry.is_dirty = True
        return batch.filter(pa.array(are_kept(numbers, self._share)))


def are_kept(numbers: npt.NDArray[np.int64], per_million: int) -> npt.NDArray[np.bool_]:
    """Which rows stay, by their numbers in the key."""
    # The remainder comes first: whole millions of rows add whole shares, and the product stays small.
    kept: npt.NDArray[np.bool_] = (numbers % MILLION) * per_million % MILLION < per_million
    return kept


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, _SLOTS)


SAMPLE = KeyedKind(takes=Sample, operator=SampleOperator, stores=_stores)
