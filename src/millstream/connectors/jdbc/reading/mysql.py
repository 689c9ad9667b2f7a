"""MySQL and MariaDB as a source: their words, their types, and a connection of the driver that only asks."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pymysql
from pymysql.constants import FIELD_TYPE, FLAG

from millstream.connectors.jdbc.database import Login
from millstream.connectors.jdbc.reading.forms import SourceColumn
from millstream.connectors.jdbc.reading.keys import Key, KeyColumn, KeyValues, decoded, encoded
from millstream.connectors.jdbc.reading.probe import StatementTimedOut
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
_EXPRESSIONS = {
    "plain": "{}",
    "text": "CAST({} AS CHAR)",
    "instant": "CONCAT(CAST({} AS CHAR), 'Z')",
    "double": "CAST({} AS DOUBLE)",
}
_UNORDERED = frozenset({"float", "enum", "set", "time", "bit", "geometry"})
"""No literal compares with these as they are ordered."""
_PRIMARY = """
SELECT column_name FROM information_schema.statistics
WHERE index_name = 'PRIMARY' AND table_schema = coalesce({}, database()) AND table_name = {} ORDER BY seq_in_index"""
_ROWS = (
    "SELECT table_rows FROM information_schema.tables WHERE table_schema = coalesce({}, database()) AND table_name = {}"
)


class MysqlDialect:
    """Texts are written as their bytes, which mean the same in every mode of the server."""

    compares_rows = False

    def quoted(self, name: str) -> str:
        """In backticks."""
        return "`" + name.replace("`", "``") + "`"

    def value(self, column: KeyColumn, value: Any) -> Statement:
        """A literal of the value's own type."""
        del column
        return Statement(_literal(decoded(value)))

    def key_text(self, column: KeyColumn) -> str:
        """As it is."""
        return f"{ALIAS}.{self.quoted(column.name)}"

    def expression(self, name: str, form: str) -> str:
        """A cast, where one is needed."""
        return f"{_EXPRESSIONS[form].format(f'{ALIAS}.{self.quoted(name)}')} AS {self.quoted(name)}"


def _literal(value: Any) -> str:
    match value:
        case bool() | int() | decimal.Decimal():
            return f"{value:f}" if isinstance(value, decimal.Decimal) else str(int(value))
        case float():
            return f"{value!r}e0" if "e" not in repr(value) else repr(value)
        case str():
            return f"_utf8mb4 X'{value.encode().hex()}'"
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            return f"TIMESTAMP'{value.isoformat(sep=' ', timespec='microseconds')}'"
        case dt.date():
            return f"DATE'{value.isoformat()}'"
    msg = f"no literal for {type(value).__name__}"
    raise TypeError(msg)


def mysql_form(column: SourceColumn, wanted: pa.DataType) -> str | None:
    """How a column is asked for to be read as a type."""
    found = column.read_as
    is_whole = found is not None and (pa.types.is_integer(found) or column.type == "bigint unsigned")
    is_number = is_whole or (found is not None and pa.types.is_decimal(found)) or column.type.startswith("decimal")
    if pa.types.is_string(wanted):
        return "plain" if found == wanted else "text"
    if pa.types.is_nested(wanted):
        return "text" if column.type == "text" else None
    if pa.types.is_boolean(wanted):
        return "plain" if column.type == "tinyint" else None
    if pa.types.is_integer(wanted):
        return "plain" if is_whole else None
    if pa.types.is_decimal(wanted):
        return "text" if is_number else None
    if pa.types.is_float64(wanted):
        return "double" if is_number or column.type in {"float", "double"} else None
    if found != wanted:
        return None
    if column.type == "timestamp":
        return "instant"
    # Dates of no calendar, such as 0000-00-00, end the driver: as text they are bad records.
    return "text" if pa.types.is_temporal(wanted) else "plain"


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
        asked = text.format(_literal(schema[0]) if schema else "NULL", _literal(table))
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
