"""Keeps the last row of each key: a change by key becomes the row that goes and the one that comes."""

from __future__ import annotations

from typing import Any

from millstream.graph.operations.changes import Normalize
from millstream.graph.stream_graph import StreamNode
from millstream.model.change import ChangeKind
from millstream.model.schema import Schema
from millstream.records.batch import Batch
from millstream.records.codecs import batch_to_rows
from millstream.records.value_types import row_type
from millstream.runtime.operators.by_key import run_by_key
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind, row_settings
from millstream.runtime.operators.grouping import KeyRows
from millstream.runtime.operators.output import RowOutput
from millstream.runtime.operators.paging import Paging
from millstream.state.pages import Due
from millstream.state.slots import Slot, Store, own_store, stored_types


class NormalizeOperator:
    """Compares each row with the last one of its key. A row that comes again as it is says nothing new."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert node.input_schema is not None
        assert node.changelog is not None
        self._node, self._op = node, node.changelog.op
        self._names = _row_columns(node).names
        self._slots = stored_types(_slots(node))
        self._keys = node.input_schema.select(node.keys)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """Compare rows in the order in which they came to their key."""
        entries = self._paging.entries(work, self._node.uid, self._keys, self._slots)
        return run_by_key(work, self._node, entries, self._compare)

    def _compare(self, batch: Batch, pieces: list[KeyRows], out: RowOutput) -> None:
        rows = batch_to_rows(batch.rows)
        times = [None] * len(rows) if batch.times is None else batch.times.to_pylist()
        for start, end, entry in pieces:
            for at in range(start, end):
                held, row = entry.slots[0], rows[at]
                is_gone = row[self._op] == ChangeKind.DELETE
                came = None if is_gone else tuple(row[name] for name in self._names)
                if came == (None if held is None else tuple(held)):
                    continue
                if held is not None:
                    out.add(self._row(held, ChangeKind.DELETE), times[at])
                if came is not None:
                    out.add(self._row(came, ChangeKind.INSERT), times[at])
                entry.slots[0] = came
                entry.is_dirty = True

    def _row(self, values: Any, kind: ChangeKind) -> dict[str, Any]:
        return dict(zip(self._names, values, strict=True)) | {self._op: kind.value}


def _row_columns(node: StreamNode) -> Schema:
    """All columns but the one that says what happened."""
    assert node.input_schema is not None
    assert node.changelog is not None
    op = node.changelog.op
    return Schema(tuple(field for field in node.input_schema if field.name != op))


def _slots(node: StreamNode) -> tuple[Slot, ...]:
    return (Slot(name="row", kind="running", content=row_type(_row_columns(node))),)


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, _slots(node))


NORMALIZE = KeyedKind(takes=Normalize, operator=NormalizeOperator, stores=_stores, settings=row_settings)
