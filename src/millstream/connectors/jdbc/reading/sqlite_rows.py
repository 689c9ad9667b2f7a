"""Rows of SQLite as Arrow. A column holds any value, so what comes is looked at before it is believed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite.dbapi as driver
import pyarrow as pa

from millstream.connectors.jdbc.database import Login
from millstream.connectors.jdbc.reading.keys import KeyValues, encoded
from millstream.connectors.jdbc.reading.relation import source_of
from millstream.connectors.jdbc.reading.sqlite import SqliteDialect
from millstream.connectors.jdbc.reading.statements import Statement
from millstream.database.retry import repeated
from millstream.database.session import Trouble
from millstream.database.sqlite import BUSY_SECONDS, connect_reader, is_passing
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema

T = TypeVar("T")

_ONE_BATCH = 2**31 - 1
"""The driver takes a column's type from its first batch and fails where a later one has another: there is one batch."""
_FETCHED = 20_000
_TROUBLE = (adbc_driver_manager.Error, sqlite3.Error, OSError)


class SqliteRows:
    """A worker's connection to a file."""

    dialect = SqliteDialect()

    def __init__(self, options: Options, login: Login) -> None:
        self._login, self._path = login, Path(login.address.path).absolute()
        self.source = source_of(options, self.dialect)
        self._connection: Any = None

    def table(self, statement: Statement, schema: Schema) -> pa.Table:
        """By the driver; where a column has values of several kinds, which it would mangle, value by value."""
        table = self._run(lambda: self._read(statement))
        if all(_is_faithful(column, field) for column, field in zip(table.columns, schema, strict=True)):
            return _without_guesses(table, schema)
        return self._run(lambda: pa.concat_tables([_nothing(schema), *self._looked_at(statement, schema)]))

    def stream(self, statement: Statement, schema: Schema) -> Iterator[pa.Table]:
        """Value by value: nobody knows yet what later rows hold."""
        try:
            yield from self._looked_at(statement, schema)
        except _TROUBLE as problem:
            self._login.fail(Trouble(cause=problem, is_passing=_is_busy(problem)))

    def _read(self, statement: Statement) -> pa.Table:
        if self._connection is None:
            self._connection = driver.connect(f"file:{quote(str(self._path))}?mode=ro", autocommit=True)
        with self._connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": _ONE_BATCH})
            cursor.execute(statement.text, statement.values or None)
            return cursor.fetch_arrow_table()

    def _looked_at(self, statement: Statement, schema: Schema) -> Iterator[pa.Table]:
        with contextlib.closing(connect_reader(self._path)) as connection:
            cursor = connection.execute(statement.text, statement.values)
            while rows := cursor.fetchmany(_FETCHED):
                columns = zip(*rows, strict=True)
                yield pa.table([_texts(each, field) for each, field in zip(columns, schema, strict=True)], schema.names)

    def keys(self, statement: Statement) -> list[KeyValues]:
        """With their storage class."""
        table = self._run(lambda: self._read(statement))
        return [[encoded(value) for value in row.values()] for row in table.to_pylist()]

    def guards(self, field: Field, form: str) -> list[str]:
        """Values are looked at when they are there."""
        del field, form
        return []

    def _run(self, work: Callable[[], T]) -> T:
        try:
            return repeated(work, passes=_is_busy, patience=self._login.patience)
        except _TROUBLE as problem:
            self._login.fail(Trouble(cause=problem, is_passing=_is_busy(problem)))

    def close(self) -> None:
        """Close the file, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _is_faithful(column: pa.ChunkedArray, field: Field) -> bool:
    """Whether every value of the column came unchanged, and may stand for one of the type wanted."""
    found, wanted = column.type, field.type
    if column.null_count == len(column):
        return True
    if pa.types.is_string(found):
        # Among texts the driver writes numbers with six digits.
        is_number = pa.types.is_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_boolean(wanted)
        return not is_number and _is_utf8(column)
    if pa.types.is_integer(found):
        return not (pa.types.is_temporal(wanted) or pa.types.is_string(wanted))
    return bool(pa.types.is_floating(wanted)) if pa.types.is_floating(found) else bool(pa.types.is_binary(wanted))


def _is_utf8(column: pa.ChunkedArray) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _without_guesses(table: pa.Table, schema: Schema) -> pa.Table:
    """Columns of nulls alone have no type of their own."""
    for place, field in enumerate(schema):
        if table.column(place).null_count == table.num_rows:
            table = table.set_column(place, field.name, pa.nulls(table.num_rows, field.type))
    return table


def _texts(values: Sequence[Any], field: Field) -> pa.Array:
    """Values as the text that stands for each exactly, or as bytes where bytes are wanted."""
    if pa.types.is_binary(field.type):
        return pa.array([_bytes(value) for value in values], pa.binary())
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else _text(value).encode()


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return repr(value) if isinstance(value, float) else str(value)


def _nothing(schema: Schema) -> pa.Table:
    return pa.table([_texts([], field) for field in schema], schema.names)


def _is_busy(problem: Exception) -> bool:
    return is_passing(problem) or "database is locked" in str(problem)
