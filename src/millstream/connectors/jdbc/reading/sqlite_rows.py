"""Rows of SQLite as Arrow, by Python's own driver and no other.

Two copies of SQLite in one process take each other's locks away when they close the same file, and so may damage it
(sqlite.org/howtocorrupt.html, section 2.2.1). Sinks, manifests and the programs of users have Python's.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.connectors.jdbc.database import Login
from millstream.connectors.jdbc.reading.keys import KeyValues, encoded
from millstream.connectors.jdbc.reading.relation import source_of
from millstream.connectors.jdbc.reading.sqlite import SqliteDialect
from millstream.connectors.jdbc.reading.statements import Statement
from millstream.database.retry import repeated
from millstream.database.session import Trouble
from millstream.database.sqlite import connect_reader, is_passing
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema

_FETCHED = 20_000


class SqliteRows:
    """A worker's connection to a file."""

    dialect = SqliteDialect()

    def __init__(self, options: Options, login: Login) -> None:
        self._login, self._path = login, Path(login.address.path).absolute()
        self.source = source_of(options, self.dialect)
        self._connection: sqlite3.Connection | None = None

    def table(self, statement: Statement, schema: Schema) -> pa.Table:
        """All rows at once, in pieces."""

        def attempt() -> list[pa.Table]:
            return list(self._pieces(statement, schema))

        try:
            pieces = repeated(attempt, passes=is_passing, patience=self._login.patience)
        except sqlite3.Error as problem:
            self._login.fail(Trouble(cause=problem, is_passing=is_passing(problem)))
        return pa.concat_tables(pieces, promote_options="permissive") if pieces else schema.arrow.empty_table()

    def stream(self, statement: Statement, schema: Schema) -> Iterator[pa.Table]:
        """The rows as they come."""
        try:
            yield from self._pieces(statement, schema)
        except sqlite3.Error as problem:
            self._login.fail(Trouble(cause=problem, is_passing=is_passing(problem)))

    def _pieces(self, statement: Statement, schema: Schema) -> Iterator[pa.Table]:
        if self._connection is None:
            self._connection = connect_reader(self._path)
        with contextlib.closing(self._connection.execute(statement.text, statement.values)) as cursor:
            while rows := cursor.fetchmany(_FETCHED):
                columns = zip(*rows, strict=True)
                yield pa.table(
                    [_column(each, field) for each, field in zip(columns, schema, strict=True)], schema.names
                )

    def keys(self, statement: Statement) -> list[KeyValues]:
        """With their storage class."""
        assert self._connection is not None, "a range was asked for"
        return [[encoded(value) for value in row] for row in self._connection.execute(statement.text, statement.values)]

    def guards(self, field: Field, form: str) -> list[str]:
        """Values are looked at when they are there."""
        del field, form
        return []

    def close(self) -> None:
        """Close the file, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _column(values: Sequence[Any], field: Field) -> pa.Array:
    """Values as they are stored where they are all of the kind that is wanted; else as the texts that stand for them."""
    if pa.types.is_binary(field.type):
        return pa.array([_bytes(value) for value in values], pa.binary())
    stored, kinds = _stored(field.type)
    # Arrow would cut a fraction off where whole numbers are wanted.
    if {*map(type, values)} <= kinds:
        with contextlib.suppress(pa.ArrowInvalid):  # a whole number that no double stands for
            return pa.array(values, stored)
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _stored(wanted: pa.DataType) -> tuple[pa.DataType, set[type]]:
    if pa.types.is_integer(wanted) or pa.types.is_boolean(wanted):
        return pa.int64(), {int, type(None)}
    if pa.types.is_floating(wanted):
        return pa.float64(), {int, float, type(None)}
    return pa.string(), {str, type(None)}


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else _text(value).encode()


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return repr(value) if isinstance(value, float) else str(value)
