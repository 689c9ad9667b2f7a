"""What a sink has shown, read back for those who look at it later, and removed row by row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.connectors.jdbc.database import Cursor, Database, quoted
from millstream.connectors.jdbc.layout import open_database
from millstream.contract.sink import Removed
from millstream.database.url import address_of
from millstream.errors import InvalidStep
from millstream.model.connector import Options, replaces
from millstream.model.schema import Schema
from millstream.records.codecs import Row, rows_to_batch

_ROWS = 10_000
_PLACES = {"sqlite": "rowid", "postgresql": "ctid::text"}
_BY_PLACE = {"sqlite": "rowid = ?1", "postgresql": "ctid = ($1::text)::tid"}


def read_back(options: Options, schema: Schema, *, job: str, step: str) -> Iterator[pa.RecordBatch]:
    """The rows of the table; of an outbox, those that are published. Columns that an older table lacks are null."""
    found = _with_database(options, job, step, lambda database: database.run(lambda c: _rows(c, database, options)))
    for start in range(0, len(found or ()), _ROWS):
        yield rows_to_batch([_typed(row, schema) for _, row in (found or ())[start : start + _ROWS]], schema)


def remove(options: Options, schema: Schema, chosen: Callable[[Row], bool], *, job: str, step: str) -> Removed:
    """Delete the rows that are chosen, in one transaction."""
    if options["mode"] == "outbox" or replaces(options):
        msg = "rows of an outbox are removed by who reads it, and what a run replaces is one result"
        raise InvalidStep(
            msg, code="DLQ-005", step=step, hint="delete them from the table yourself, or let a run replace them"
        )

    def work(database: Database) -> int:
        def deleted(cursor: Cursor) -> int:
            if database.columns(cursor, options["table"]) is not None:
                # A place is that of another row once its own is gone: nobody writes until the rows are deleted.
                database.lock_table(cursor, options["table"])
            places = [place for place, row in _rows(cursor, database, options) if chosen(_typed(row, schema))]
            for place in places:
                by_place = _BY_PLACE[address_of(options["url"]).kind]
                cursor.execute(f"DELETE FROM {database.name(options['table'])} WHERE {by_place}", (place,))
            return len(places)

        return database.run(deleted)

    return Removed(rows=_with_database(options, job, step, work) or 0)


def _with_database(options: Options, job: str, step: str, work: Callable[[Database], Any]) -> Any:
    address = address_of(options["url"])
    if address.kind == "sqlite" and not Path(address.path).exists():
        return None
    database = open_database(options, job=job, step=step)
    try:
        return work(database)
    finally:
        database.close()


def _rows(cursor: Cursor, database: Database, options: Options) -> list[tuple[Any, Row]]:
    """Each row with its place in the table; a view has no places."""
    is_outbox = options["mode"] == "outbox"
    table = f"{options['table']}_published" if is_outbox else options["table"]
    columns = list(database.columns(cursor, table) or ())
    if not columns:
        return []
    place = "NULL" if is_outbox else _PLACES[address_of(options["url"]).kind]
    cursor.execute(f"SELECT {place}, {', '.join(map(quoted, columns))} FROM {database.name(table)}")
    return [(row[0], dict(zip(columns, row[1:], strict=True))) for row in cursor.fetchall()]


def _typed(row: Row, schema: Schema) -> Row:
    return {field.name: _value(row.get(field.name), field.type) for field in schema}


def _value(value: Any, kind: pa.DataType) -> Any:
    """Databases without a type for instants keep them as text."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, str) and pa.types.is_timestamp(kind):
        instant = dt.datetime.fromisoformat(value)
        return instant if instant.tzinfo or not kind.tz else instant.replace(tzinfo=dt.UTC)
    return value
