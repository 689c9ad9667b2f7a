"""MySQL and MariaDB as a source: the types of their columns, and a connection of the driver that only asks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pymysql
from pymysql.constants import FIELD_TYPE, FLAG

from millstream.connectors.jdbc.database import Login
from millstream.connectors.jdbc.reading.forms import SourceColumn
from millstream.connectors.jdbc.reading.keys import Key, KeyColumn, KeyValues, encoded
from millstream.connectors.jdbc.reading.mysql_words import MysqlDialect, literal, mysql_form
from millstream.connectors.jdbc.reading.probe import SAMPLED, StatementTimedOut
from millstream.connectors.jdbc.reading.relation import source_of, table_parts
from millstream.connectors.jdbc.reading.statements import ALIAS, Statement
from millstream.connectors.jdbc.types import mysql_read
from millstream.database.retry import repeated
from millstream.database.session import Trouble
from millstream.errors import InvalidStep
from millstream.model.connector import Options

T = TypeVar("T")

_BINARY = 63
"""The character set of what is no text."""
_TIMED_OUT = frozenset({1969, 3024, 1317})
_PASSING = frozenset({1040, 1053, 1205, 1213, 2002, 2003, 2006, 2013, 2055})
_WHOLE = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
}
_OTHER = {
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.BIT: "bit",
    FIELD_TYPE.GEOMETRY: "geometry",
    FIELD_TYPE.JSON: "text",
}
_UNORDERED = frozenset({"float", "enum", "set", "time", "bit", "geometry"})
"""No literal compares with these as they are ordered."""
_PRIMARY = """
SELECT column_name FROM information_schema.statistics
WHERE index_name = 'PRIMARY' AND table_schema = coalesce({}, database()) AND table_name = {} ORDER BY seq_in_index"""
_ROWS = (
    "SELECT table_rows FROM information_schema.tables WHERE table_schema = coalesce({}, database()) AND table_name = {}"
)


class MysqlProbe:
    """The driver's connection to MySQL or MariaDB."""

    dialect = MysqlDialect()

    def __init__(self, options: Options, login: Login, *, timeout: int) -> None:
        self._login, self._timeout = login, timeout
        self._table = None if options["table"] is None else table_parts(options["table"])
        self.source = source_of(options, self.dialect)
        self._connection: Any = None

    @property
    def server(self) -> str:
        """They have different words for what holds during one statement."""
        return self._run(lambda connection: "mariadb" if "MariaDB" in connection.get_server_info() else "mysql")

    def columns(self) -> list[SourceColumn]:
        """What the server says that the result has."""
        return self._run(self._described)

    def _described(self, connection: Any) -> list[SourceColumn]:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.source} LIMIT 0")
            # The public description leaves out whether numbers have a sign, and what is text.
            fields = cursor._result.fields
        return [
            SourceColumn(
                name=field.name,
                type=(kind := _type_of(field)),
                read_as=mysql_read(kind),
                nullable=not field.flags & FLAG.NOT_NULL or self._table is None,
                cast="CAST({} AS CHAR)",
            )
            for field in fields
        ]

    def primary_key(self) -> list[str]:
        """From the catalogue."""
        return [] if self._table is None else [name for (name,) in self._about_table(_PRIMARY)]

    def _about_table(self, text: str) -> list[tuple[Any, ...]]:
        assert self._table is not None, "a table is read"
        *schema, table = self._table
        asked = text.format(literal(schema[0]) if schema else "NULL", literal(table))
        return self.fetch(Statement(asked))

    def key(self, columns: Sequence[SourceColumn]) -> Key:
        """Types whose order no literal follows are refused; of the others a value says its type itself."""
        for column in columns:
            if column.type in _UNORDERED:
                msg = f"column {column.name!r} cannot be a key: no value of it can be written down so that it compares"
                hint = "choose another key, or cast the column in a query"
                raise InvalidStep(msg, code="JDBC-033", step=self._login.step, found=column.type, hint=hint)
        return tuple(KeyColumn(name=each.name, nullable=each.nullable) for each in columns)

    def form(self, column: SourceColumn, wanted: pa.DataType) -> str | None:
        """As text where the driver would lose digits, or fail."""
        return mysql_form(column, wanted)

    def fetch(self, statement: Statement) -> list[tuple[Any, ...]]:
        """The rows of a small answer."""

        def ask(connection: Any) -> list[tuple[Any, ...]]:
            with connection.cursor() as cursor:
                cursor.execute(statement.text)
                return list(cursor.fetchall())

        return self._run(ask)

    def key_values(self, row: Sequence[Any]) -> KeyValues:
        """With their type."""
        return [encoded(value) for value in row]

    def estimate(self) -> int | None:
        """The statistics of a table."""
        rows = [] if self._table is None else self._about_table(_ROWS)
        return int(rows[0][0]) if rows and rows[0][0] is not None else None

    def width(self, names: Sequence[str]) -> int:
        """By their text."""
        columns = (f"{ALIAS}.{self.dialect.quoted(name)}" for name in names)
        sizes = " + ".join(f"coalesce(octet_length({column}), 0)" for column in columns)
        sample = f"SELECT {sizes} AS size FROM {self.source} LIMIT {SAMPLED}"
        ((width,),) = self.fetch(Statement(f"SELECT avg(size) FROM ({sample}) AS s"))
        return int(width or 0)

    def explain(self, statement: Statement) -> list[str]:
        """As EXPLAIN says it, a line for each table."""
        return [" ".join(str(cell) for cell in row) for row in self.fetch(Statement("EXPLAIN ") + statement)]

    def cancel(self) -> None:
        """By another connection."""
        asking = self._connection
        if asking is not None:
            with contextlib.suppress(pymysql.Error), contextlib.closing(connected(self._login)) as connection:
                connection.query(f"KILL QUERY {asking.thread_id()}")

    def close(self) -> None:
        """Close the connection, if one is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(pymysql.Error):  # it may be gone already
                connection.close()

    def _run(self, work: Callable[[Any], T]) -> T:
        def attempt() -> T:
            if self._connection is None:
                self._connection = _asking(self._login, self._timeout)
            try:
                return work(self._connection)
            except pymysql.Error as problem:
                if _code(problem) in _TIMED_OUT:
                    raise StatementTimedOut(str(problem)) from problem
                self.close()
                raise

        try:
            return repeated(attempt, passes=_is_passing, patience=self._login.patience)
        except pymysql.Error as problem:
            self._login.fail(Trouble(cause=problem, is_passing=_is_passing(problem)))


def connected(login: Login) -> Any:
    """A connection in which each statement commits itself."""
    address = login.address
    return pymysql.connect(
        host=address.host or "localhost",
        port=address.port or 3306,
        user=address.user,
        password=login.password(),
        database=address.database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=5,
    )


def _asking(login: Login, timeout: int) -> Any:
    connection = connected(login)
    is_mariadb = "MariaDB" in connection.get_server_info()
    limit = f"max_statement_time = {timeout / 1000}" if is_mariadb else f"max_execution_time = {timeout}"
    try:
        connection.query("SET SESSION TRANSACTION READ ONLY")
        connection.query(f"SET SESSION time_zone = '+00:00', {limit}")
    except BaseException:
        connection.close()
        raise
    return connection


def _type_of(field: Any) -> str:
    """The type of a column of a result, in the words of a table's definition."""
    is_unsigned = bool(field.flags & FLAG.UNSIGNED)
    if field.flags & (FLAG.ENUM | FLAG.SET):
        return "enum" if field.flags & FLAG.ENUM else "set"
    if field.type_code in _WHOLE:
        return _WHOLE[field.type_code] + (" unsigned" if is_unsigned else "")
    if field.type_code in {FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL}:
        # Its length counts a sign and a point.
        digits = field.length - (field.scale > 0) - (not is_unsigned)
        return f"decimal({digits},{field.scale})"
    if field.type_code in _OTHER:
        return _OTHER[field.type_code]
    return "binary" if field.charsetnr == _BINARY else "text"


def _code(problem: Exception) -> int | None:
    return problem.args[0] if problem.args and isinstance(problem.args[0], int) else None


def _is_passing(problem: Exception) -> bool:
    return isinstance(problem, pymysql.Error) and _code(problem) in _PASSING
