"""From changes to rows: one for a change by key, two for an update of whole rows or of a key; with what else is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.postgres_cdc.messages import Bytes, Flags, Numbers
from millstream.connectors.postgres_cdc.pgoutput import (
    DELETE,
    GAP,
    INSERT,
    NULL,
    TEXT,
    UPDATE,
    TableChanges,
    TupleValues,
)
from millstream.connectors.postgres_cdc.relation import TableColumns
from millstream.connectors.postgres_cdc.spec import table_schema
from millstream.connectors.postgres_cdc.typed_rows import Part, bad_row, origin_of, typed_rows
from millstream.model.change import ChangeKind
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema

Texts = list[bytes | None]
LookUp = Callable[[Sequence[Texts], Sequence[str]], Sequence[Texts]]
"""Takes keys and column names; gives the values that the table has now, null where it has no such row any more."""
_KINDS = pa.array([kind.value for kind in (ChangeKind.INSERT, ChangeKind.UPDATE, ChangeKind.DELETE)], pa.string())


class RowOrder(NamedTuple):
    """Which rows come of which changes, in order."""

    change: Numbers
    is_old: Flags
    """Whether the row is what was before."""
    kind: Numbers
    """Its place in the kinds of changes: insert, update, delete."""

    def take(self, rows: Numbers) -> RowOrder:
        """Some of the rows, in another order maybe."""
        return RowOrder(self.change[rows], self.is_old[rows], self.kind[rows])


class ChangeRows:
    """Makes rows of the changes of a table."""

    def __init__(self, options: Options, schema: Schema, *, look_up: LookUp | None = None) -> None:
        self._options, self._schema, self._look_up = options, schema, look_up
        self._table = table_schema(options, schema)
        self._is_paired = options["images"] == "both"
        self._keys = [self._table.names.index(key) for key in options["keys"]]

    def rows(self, changes: TableChanges, columns: TableColumns) -> Iterator[Part]:
        """The rows of some changes, and those that are bad."""
        _fill_from_old(changes)
        order = row_order(changes, columns, is_paired=self._is_paired)
        values = self._values(changes, columns, order)
        gaps = values.marks == GAP
        if gaps.any():
            is_refused = gaps.any(axis=0) & (self._options["unchanged"] == "fail")
            for row in np.flatnonzero(is_refused).tolist():
                yield self._refused(values, gaps[:, row], row, int(changes.lsns[order.change[row]]))
            kept = np.flatnonzero(~is_refused)
            order, values, gaps = order.take(kept), values.take(kept), gaps[:, kept]
            values = self._mended(values, gaps)
        lsns = changes.lsns[order.change]
        texts = self._texts(changes, columns, order, values, gaps)
        yield from typed_rows(texts, self._options, self._schema, lambda row: origin_of(self._options, int(lsns[row])))

    def _values(self, changes: TableChanges, columns: TableColumns, order: RowOrder) -> TupleValues:
        """The values of the rows, by the columns of the schema."""
        shape = (len(self._table), len(order.change))
        marks = np.full(shape, NULL, np.uint8)
        begins, sizes = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for column, place in enumerate(columns.places):
            if place is None:
                continue
            for made, old, new in (
                (marks, changes.old.marks, changes.new.marks),
                (begins, changes.old.begins, changes.new.begins),
                (sizes, changes.old.sizes, changes.new.sizes),
            ):
                made[column] = np.where(order.is_old, old[place][order.change], new[place][order.change])
            if not self._is_paired and column not in self._keys:
                # Of a row that goes, the key says everything.
                marks[column][order.is_old], sizes[column][order.is_old] = NULL, 0
        return TupleValues(changes.new.data, marks, begins, sizes)

    def _refused(self, values: TupleValues, gaps: Flags, row: int, lsn: int) -> Part:
        names = ", ".join(name for name, is_gap in zip(self._table.names, gaps, strict=True) if is_gap)
        error = (
            f"the update left {names} as it was, and the server does not send such long values; pass unchanged='lookup' "
            "or 'placeholder', or ALTER TABLE ... REPLICA IDENTITY FULL"
        )
        texts = [values.column(column, np.array([row]))[0].as_py() for column in range(len(self._table))]
        return bad_row(self._table, texts, error, origin_of(self._options, lsn))

    def _mended(self, values: TupleValues, gaps: Flags) -> TupleValues:
        """Give values that were not sent what the table has now, or their placeholder."""
        rows, wanted = np.flatnonzero(gaps.any(axis=0)), np.flatnonzero(gaps.any(axis=1))
        placeholder = None if self._options["placeholder"] is None else self._options["placeholder"].encode()
        found: Sequence[Texts] = [[placeholder] * len(wanted)] * len(rows)
        if self._look_up is not None and len(rows):
            keys = zip(*(values.column(key, rows).to_pylist() for key in self._keys), strict=True)
            found = self._look_up([list(key) for key in keys], [self._table.names[column] for column in wanted])
        filled = [
            (column, row, text)
            for row, texts in zip(rows.tolist(), found, strict=True)
            for column, text in zip(wanted.tolist(), texts, strict=True)
            if gaps[column, row]
        ]
        return _with_texts(values, filled)

    def _texts(
        self, changes: TableChanges, columns: TableColumns, order: RowOrder, values: TupleValues, gaps: Flags
    ) -> pa.RecordBatch:
        """Columns of the table as texts, the others as they will be."""
        every = np.arange(len(order.change))
        made = {name: values.column(column, every) for column, name in enumerate(self._table.names)}
        for name, part in self._options["metadata"].items():
            made[name] = self._metadata(part, self._schema[name], changes, columns, order, gaps)
        return pa.RecordBatch.from_pydict({name: made[name] for name in self._schema.names})

    def _metadata(
        self, part: str, field: Field, changes: TableChanges, columns: TableColumns, order: RowOrder, gaps: Flags
    ) -> pa.Array:
        match part:
            case "op":
                return _KINDS.take(pa.array(order.kind))
            case "lsn":
                return pa.array(changes.lsns[order.change])
            case "commit_time":
                return pa.array(changes.transactions.commit_time[order.change]).cast(field.type)
            case "xid":
                return pa.array(changes.transactions.xid[order.change])
            case "unchanged":
                return self._unchanged(field, gaps)
            case _:
                return self._before(field, changes, columns, order)

    def _unchanged(self, field: Field, gaps: Flags) -> pa.Array:
        names = pa.array(self._table.names)
        rows, columns = np.nonzero(gaps.T)
        offsets = np.searchsorted(rows, np.arange(gaps.shape[1] + 1)).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(columns))).cast(field.type)

    def _before(self, field: Field, changes: TableChanges, columns: TableColumns, order: RowOrder) -> pa.Array:
        """The row as it was, as far as the server tells."""
        arrays = []
        for each in field.type:
            place = columns.places[self._table.names.index(each.name)]
            texts = pa.nulls(len(order.change), pa.large_binary())
            arrays.append(texts if place is None else changes.old.column(place, order.change))
        is_missing = pa.array(~changes.has_old[order.change])
        return pa.StructArray.from_arrays(arrays, [each.name for each in field.type], mask=is_missing)


def row_order(changes: TableChanges, columns: TableColumns, *, is_paired: bool) -> RowOrder:
    """Which rows come of changes: what goes stands before what comes in its place."""
    is_delete, is_update = changes.letters == DELETE, changes.letters == UPDATE
    # Another key is another row: what held the old one is gone.
    is_split = is_update & (changes.has_old if is_paired else _has_other_key(changes, columns, is_update))
    goes, comes = np.flatnonzero(is_delete | is_split), np.flatnonzero(~is_delete)
    came = np.where((changes.letters == INSERT) | is_split, 0, 1)[comes]
    change = np.concatenate([goes, comes])
    is_old = np.arange(len(change)) < len(goes)
    kind = np.concatenate([np.full(len(goes), 2), came])
    order = np.argsort(change * 2 + ~is_old, kind="stable")
    return RowOrder(change, is_old, kind).take(order)


def _has_other_key(changes: TableChanges, columns: TableColumns, is_update: Flags) -> Flags:
    both = np.flatnonzero(is_update & changes.has_old)
    is_other = np.zeros(len(changes.letters), np.bool_)
    for place in columns.keys if len(both) else ():
        differs = pc.not_equal(changes.old.column(place, both), changes.new.column(place, both))
        is_other[both] |= np.asarray(pc.fill_null(differs, pa.scalar(value=True)))
    return is_other


def _fill_from_old(changes: TableChanges) -> None:
    """The old row holds what the new one does not repeat, where all of it or that part of the key was sent."""
    new, old = changes.new, changes.old
    for place, column in enumerate(changes.relation.columns):
        is_gap = new.marks[place] == GAP
        if is_gap.any():
            is_known = is_gap & changes.has_old & (changes.is_old_whole | column.is_key)
            for made, known in ((new.marks, old.marks), (new.begins, old.begins), (new.sizes, old.sizes)):
                made[place][is_known] = known[place][is_known]


def _with_texts(values: TupleValues, filled: Sequence[tuple[int, int, bytes | None]]) -> TupleValues:
    """The same values with some set to texts that stand behind the buffer then."""
    data: list[Bytes] = [values.data]
    end = len(values.data)
    for column, row, text in filled:
        values.marks[column, row], values.begins[column, row] = (NULL if text is None else TEXT), end
        values.sizes[column, row] = len(text or b"")
        if text:
            data.append(np.frombuffer(text, np.uint8))
            end += len(text)
    return TupleValues(np.concatenate(data), values.marks, values.begins, values.sizes)
