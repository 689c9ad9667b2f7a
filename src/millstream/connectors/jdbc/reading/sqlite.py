"""SQLite as a source: its words, what its columns hold, and a connection of the driver that only asks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from millstream.connectors.jdbc.database import Login, quoted
from millstream.connectors.jdbc.reading.forms import SourceColumn
from millstream.connectors.jdbc.reading.keys import Key, KeyColumn, KeyValues, decoded, encoded
from millstream.connectors.jdbc.reading.probe import SAMPLED
from millstream.connectors.jdbc.reading.relation import source_of, table_parts
from millstream.connectors.jdbc.reading.statements import ALIAS, Statement
from millstream.connectors.jdbc.types import sqlite_read
from millstream.database.retry import repeated
from millstream.database.session import Trouble
from millstream.database.sqlite import connect_reader, is_passing
from millstream.errors import InvalidStep
from millstream.model.connector import Options

T = TypeVar("T")

_VIEW = "millstream_described"
_STORED = {frozenset({"integer"}): pa.int64(), frozenset({"text"}): pa.string(), frozenset({"blob"}): pa.binary()}
_NUMBERS = frozenset({"integer", "real"})


class SqliteDialect:
    """Values are bound: no text stands for every number and every text exactly."""

    compares_rows = True

    def quoted(self, name: str) -> str:
        """In double quotes."""
        return quoted(name)

    def value(self, column: KeyColumn, value: Any) -> Statement:
        """A place for the value, whatever its storage class is."""
        del column
        return Statement("?", (decoded(value),))

    def key_text(self, column: KeyColumn) -> str:
        """As it is."""
        return f"{ALIAS}.{quoted(column.name)}"

    def expression(self, name: str, form: str) -> str:
        """A cast, where one is needed."""
        column = f"{ALIAS}.{quoted(name)}"
        return f"{f'CAST({column} AS TEXT)' if form == 'text' else column} AS {quoted(name)}"


def sqlite_form(column: SourceColumn, wanted: pa.DataType) -> str | None:
    """Columns hold any value, so each value is looked at when it is read; text is asked for where text is wanted."""
    del column
    return "text" if pa.types.is_string(wanted) or pa.types.is_decimal(wanted) else "plain"


class SqliteProbe:
    """The driver's connection to a file, which it never changes or makes."""

    dialect = SqliteDialect()
    server = ""

    def __init__(self, options: Options, login: Login) -> None:
        # Later work of this process may change its folder; the file stays the same.
        self._path, self._login = Path(login.address.path).absolute(), login
        self.source = source_of(options, self.dialect)
        self._table = None if options["table"] is None else _only_part(options["table"], login)
        self._connection: sqlite3.Connection | None = None

    def columns(self) -> list[SourceColumn]:
        """What a view of the source would be declared as; where that says nothing, what the first rows hold."""
        declared = self._run(self._declared)
        unknown = [name for name, kind in declared if sqlite_read(kind) is None]
        stored = dict(zip(unknown, self._stored(unknown), strict=True))
        present = self._present()
        return [
            SourceColumn(
                name=name,
                type=kind,
                read_as=stored[name] if name in stored else sqlite_read(kind),
                nullable=name not in present,
            )
            for name, kind in declared
        ]

    def _declared(self, connection: sqlite3.Connection) -> list[tuple[str, str]]:
        connection.execute(f"DROP VIEW IF EXISTS temp.{_VIEW}")
        connection.execute(f"CREATE TEMP VIEW {_VIEW} AS SELECT * FROM {self.source}")
        try:
            return connection.execute(f"SELECT name, type FROM pragma_table_info('{_VIEW}')").fetchall()
        finally:
            connection.execute(f"DROP VIEW temp.{_VIEW}")

    def _stored(self, names: Sequence[str]) -> list[pa.DataType | None]:
        if not names:
            return []
        asked = ", ".join(f"typeof({ALIAS}.{quoted(name)})" for name in names)
        rows = self.fetch(Statement(f"SELECT {asked} FROM {self.source} LIMIT {SAMPLED}"))
        return [_held({row[place] for row in rows}) for place in range(len(names))]

    def _present(self) -> set[str]:
        if self._table is None:
            return set()
        asked = Statement('SELECT name FROM pragma_table_info(?) WHERE "notnull"', (self._table,))
        return {name for (name,) in self.fetch(asked)}

    def primary_key(self) -> list[str]:
        """From the table's own description."""
        asked = Statement("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (self._table,))
        return [] if self._table is None else [name for (name,) in self.fetch(asked)]

    def key(self, columns: Sequence[SourceColumn]) -> Key:
        """A comparison and an order of the same column have its collation, which nothing can change."""
        return tuple(KeyColumn(name=each.name, nullable=each.nullable) for each in columns)

    def form(self, column: SourceColumn, wanted: pa.DataType) -> str | None:
        """As it is, or as text."""
        return sqlite_form(column, wanted)

    def fetch(self, statement: Statement) -> list[tuple[Any, ...]]:
        """The rows of a small answer."""
        return self._run(lambda connection: connection.execute(statement.text, statement.values).fetchall())

    def key_values(self, row: Sequence[Any]) -> KeyValues:
        """With their storage class."""
        return [encoded(value) for value in row]

    def estimate(self) -> int | None:
        """From the numbers of a table's rows, which may have gaps."""
        if self._table is None:
            return None
        return self._run(self._numbered)

    def _numbered(self, connection: sqlite3.Connection) -> int | None:
        try:
            (most,) = connection.execute(f"SELECT max(_rowid_) - min(_rowid_) + 1 FROM {self.source}").fetchone()
        except sqlite3.OperationalError as problem:
            if is_passing(problem):
                raise
            return None  # a view, or a table without row numbers
        return int(most or 0)

    def width(self, names: Sequence[str]) -> int:
        """By their bytes."""
        sizes = " + ".join(f"coalesce(length(CAST({ALIAS}.{quoted(name)} AS BLOB)), 0)" for name in names)
        sample = f"SELECT {sizes} AS size FROM {self.source} LIMIT {SAMPLED}"
        ((width,),) = self.fetch(Statement(f"SELECT avg(size) FROM ({sample})"))
        return int(width or 0)

    def explain(self, statement: Statement) -> list[str]:
        """As EXPLAIN QUERY PLAN says it."""
        return [row[-1] for row in self.fetch(Statement("EXPLAIN QUERY PLAN ") + statement)]

    def cancel(self) -> None:
        """From another thread."""
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def close(self) -> None:
        """Close the file, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def attempt() -> T:
            if self._connection is None:
                self._connection = connect_reader(self._path)
            return work(self._connection)

        try:
            return repeated(attempt, passes=is_passing, patience=self._login.patience)
        except sqlite3.Error as problem:
            self._login.fail(Trouble(cause=problem, is_passing=is_passing(problem)))


def _held(classes: set[str]) -> pa.DataType | None:
    """The type for storage classes that were seen side by side; `None` where it takes a person to say."""
    seen = classes - {"null"}
    if "real" in seen and seen <= _NUMBERS:
        return pa.float64()
    return _STORED.get(frozenset(seen))


def _only_part(table: str, login: Login) -> str:
    parts = table_parts(table)
    if len(parts) != 1:
        msg = "SQLite has no schemas"
        raise InvalidStep(msg, code="JDBC-001", step=login.step, found=table, hint="name the table alone")
    return parts[0]
