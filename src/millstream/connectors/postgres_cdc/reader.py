"""The worker's side: rows of the copied table, and changes out of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.connectors.postgres_cdc.lookup import TableLookup
from millstream.connectors.postgres_cdc.messages import Flags, TableRelation
from millstream.connectors.postgres_cdc.pgoutput import PgOutputDecoder, TableTruncation, Transactions
from millstream.connectors.postgres_cdc.positions import LogStretch, lsn_number, stretch_of
from millstream.connectors.postgres_cdc.preparation import check_slot
from millstream.connectors.postgres_cdc.reading import messages_upto
from millstream.connectors.postgres_cdc.relation import TableColumns, table_columns
from millstream.connectors.postgres_cdc.rows import ChangeRows
from millstream.connectors.postgres_cdc.server import CdcServer
from millstream.connectors.postgres_cdc.spec import table_schema
from millstream.connectors.postgres_cdc.table_copy import read_texts
from millstream.connectors.postgres_cdc.typed_rows import Part, origin_of, typed_rows
from millstream.errors import StepFailed
from millstream.model.change import ChangeKind
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema

_ROWS = 50_000


class CdcReader:
    """Reads splits: `{"copy": [path, first row, row behind the last, lsn, time]}` or `{"log": stretch}`."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._options, self._schema, self._step = options, schema, str(options["table"])
        self._table = table_schema(options, schema)
        self._lookup: TableLookup | None = None

    def read(self, split: Any) -> Iterator[Part]:
        """The rows of a split, in the order of commits."""
        return self._copied(*split["copy"]) if "copy" in split else self._changes(stretch_of(split["log"]))

    def _copied(self, path: str, first: int, end: int, lsn: str, taken_at: int) -> Iterator[Part]:
        texts = read_texts(path, first, end, step=self._step)
        columns = {name: texts.column(name) for name in self._table.names}
        for name, part in self._options["metadata"].items():
            value = {"op": ChangeKind.READ.value, "lsn": lsn_number(lsn), "commit_time": taken_at, "unchanged": []}
            columns[name] = _constant(value.get(part), self._schema[name], texts.num_rows)
        batch = pa.RecordBatch.from_pydict({name: columns[name] for name in self._schema.names})
        for start in range(0, batch.num_rows, _ROWS):
            piece = batch.slice(start, _ROWS)
            yield from typed_rows(
                piece, self._options, self._schema, lambda _: origin_of(self._options, lsn_number(lsn))
            )

    def _changes(self, stretch: LogStretch) -> Iterator[Part]:
        """Changes of transactions that commit inside a stretch and are not in the copy."""
        decoder = PgOutputDecoder(stretch.oid, _wanted(stretch), step=self._step)
        rows = ChangeRows(self._options, self._schema, look_up=self._look_up(stretch.oid))
        relation: TableRelation | None = None
        columns: TableColumns | None = None
        for block in messages_upto(self._options, stretch.end, step=self._step):
            for part in decoder.decode(block):
                if isinstance(part, TableTruncation):
                    self._check_truncation()
                    continue
                if columns is None or part.relation != relation:
                    relation, columns = part.relation, self._fitted(part.relation)
                yield from rows.rows(part, columns)
            self._check_strangers(decoder)
        self._check_complete(stretch)

    def _fitted(self, relation: TableRelation) -> TableColumns:
        """How its tuples become rows."""
        if not self._is_named(relation):
            msg = f"table {self._step!r} has another name"
            raise self._other_table(msg, relation, "correct table=")
        return table_columns(relation, self._options, self._table, self._step)

    def _check_strangers(self, decoder: PgOutputDecoder) -> None:
        """Other tables may be in the publication; one that took the name of ours must not be passed over."""
        for oid in decoder.strangers:
            if self._is_named(decoder.relation(oid)):
                msg = f"table {self._step!r} was made anew under its name"
                raise self._other_table(msg, decoder.relation(oid), "start with a new slot and a new checkpoint")

    def _is_named(self, relation: TableRelation) -> bool:
        return relation.table == self._options["table"] and self._options["schema"] in {None, relation.schema}

    def _other_table(self, msg: str, relation: TableRelation, hint: str) -> StepFailed:
        found = f"{relation.schema}.{relation.table}"
        return StepFailed(msg, code="CDC-009", step=self._step, found=found, known=self._step, hint=hint)

    def _check_truncation(self) -> None:
        if self._options["on_truncate"] == "fail":
            msg = f"table {self._step!r} was truncated, which no row can say"
            hint = "empty what the job wrote and start it anew, or keep the rows with on_truncate='ignore'"
            raise StepFailed(msg, code="CDC-011", step=self._step, hint=hint)

    def _check_complete(self, stretch: LogStretch) -> None:
        """The slot gives what is left of the log, and does not say that something is missing: it must not have moved."""
        server = CdcServer(self._options, step=self._step)
        try:
            check_slot(server.status(self._options["slot"]), self._options, self._step, start=stretch.first)
        finally:
            server.close()

    def _look_up(self, oid: int) -> TableLookup | None:
        if self._options["unchanged"] == "lookup" and self._lookup is None:
            self._lookup = TableLookup(self._options, oid, step=self._step)
        return self._lookup

    def close(self) -> None:
        """End what was opened."""
        if self._lookup is not None:
            self._lookup.close()


def _wanted(stretch: LogStretch) -> Callable[[Transactions], Flags]:
    """Which transactions commit inside a stretch, without those that the copy shows."""
    first, end, _, seen = stretch

    def are_wanted(transactions: Transactions) -> Flags:
        at = transactions.commit_lsn
        wanted: Flags = (first <= at) & (at < end)
        if seen is not None:
            for place in np.flatnonzero(wanted & (at < seen.until)).tolist():
                wanted[place] = not seen.shows(int(transactions.xid[place]))
        return wanted

    return are_wanted


def _constant(value: Any, field: Field, rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(rows, field.type)
    made = pa.scalar(value, pa.int64() if pa.types.is_timestamp(field.type) else field.type).cast(field.type)
    return pa.repeat(made, rows)
