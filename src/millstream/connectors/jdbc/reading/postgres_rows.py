"""Rows of PostgreSQL as Arrow: by COPY, or by a cursor of the server."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import adbc_driver_manager
import adbc_driver_manager.dbapi
import adbc_driver_postgresql
import psycopg.conninfo
import pyarrow as pa

from millstream.connectors.jdbc.database import Login, quoted
from millstream.connectors.jdbc.postgres import connection_settings
from millstream.connectors.jdbc.reading.keys import KeyValues
from millstream.connectors.jdbc.reading.postgres import PostgresDialect, settings_statement
from millstream.connectors.jdbc.reading.probe import StatementTimedOut
from millstream.connectors.jdbc.reading.relation import source_of
from millstream.connectors.jdbc.reading.statements import ALIAS, Statement
from millstream.database.postgres import is_lasting
from millstream.database.retry import repeated
from millstream.database.session import Trouble
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema

T = TypeVar("T")

_CANCELLED = "57014"
_PASSING = ("08", "53", "57P", "40")
"""Classes of SQLSTATE for a connection or server that is away or overloaded, or a transaction that is to be repeated."""
_FETCHED = 20_000
_TROUBLE = (adbc_driver_manager.Error, OSError)


class PostgresRows:
    """A worker's connection to PostgreSQL."""

    dialect = PostgresDialect()

    def __init__(self, options: Options, login: Login, *, timeout: int) -> None:
        self._login, self._timeout = login, timeout
        self.source = source_of(options, self.dialect)
        self._connection: Any = None

    def table(self, statement: Statement, schema: Schema) -> pa.Table:
        """By COPY, in a transaction of its own."""
        del schema
        return self._run(lambda connection: _executed(connection, statement.text))

    def stream(self, statement: Statement, schema: Schema) -> Iterator[pa.Table]:
        """By a cursor inside one transaction, which sees the rows as they were when it began."""
        del schema
        self._run(lambda connection: _open_cursor(connection, statement.text))
        try:
            while (table := self._fetched()).num_rows:
                yield table
        finally:
            self.close()

    def _fetched(self) -> pa.Table:
        try:
            return _executed(self._connection, f"FETCH FORWARD {_FETCHED} FROM millstream_rows", copies=False)
        except _TROUBLE as problem:
            self._fail(problem)

    def keys(self, statement: Statement) -> list[KeyValues]:
        """As texts."""
        table = self._run(lambda connection: _executed(connection, statement.text))
        return [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]

    def guards(self, field: Field, form: str) -> list[str]:
        """The driver would give an array of several dimensions as one."""
        if not pa.types.is_list(field.type) or form == "text":
            return []
        return [f"coalesce(array_ndims({ALIAS}.{quoted(field.name)}) > 1, false)"]

    def _run(self, work: Callable[[Any], T]) -> T:
        def attempt() -> T:
            if self._connection is None:
                self._connection = self._connected()
            try:
                return work(self._connection)
            except _TROUBLE as problem:
                if _state(problem) == _CANCELLED:
                    raise StatementTimedOut(_told(problem)) from problem
                # Whatever state it is in, it is not asked again.
                self.close()
                raise

        try:
            return repeated(attempt, passes=_is_passing, patience=self._login.patience)
        except _TROUBLE as problem:
            self._fail(problem)

    def _connected(self) -> Any:
        settings = connection_settings(self._login)
        # The name of the step comes later: what is known of a database serves all jobs of this process.
        name = {"application_name": settings.pop("application_name")}
        known = _known_database(psycopg.conninfo.make_conninfo("", **settings))
        opened = adbc_driver_manager.AdbcConnection(known)
        kept: Any = _Kept()
        connection = adbc_driver_manager.dbapi.Connection(kept, opened, autocommit=True)
        try:
            _executed(connection, settings_statement(self._timeout, name))
        except BaseException:
            connection.close()
            raise
        return connection

    def _fail(self, problem: Exception) -> NoReturn:
        text = self._login.address.hidden(_told(problem))
        if _state(problem) == _CANCELLED:
            raise StatementTimedOut(text) from problem
        self._login.fail(Trouble(cause=RuntimeError(text), is_passing=_is_passing(problem)))

    def close(self) -> None:
        """Close the connection, if one is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(adbc_driver_manager.Error):  # it may be gone already
                connection.close()


@functools.lru_cache(maxsize=8)
def _known_database(conninfo: str) -> Any:
    """What the driver knows of a database: its types. Asking for them takes twenty times as long as connecting."""
    return adbc_driver_postgresql.connect(conninfo)


class _Kept:
    """Stands for the database in a connection that closes without closing it."""

    def close(self) -> None:
        """The next connection of this process uses it."""


def _executed(connection: Any, text: str, *, copies: bool = True) -> pa.Table:
    """The whole answer; the cursor is closed before anything else happens to the connection, as the driver wants it."""
    with connection.cursor() as cursor:
        if not copies:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        cursor.execute(text)
        return cursor.fetch_arrow_table()


def _open_cursor(connection: Any, text: str) -> None:
    _executed(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", copies=False)
    _executed(connection, f"DECLARE millstream_rows NO SCROLL CURSOR FOR {text}", copies=False)


def _state(problem: Exception) -> str | None:
    return getattr(problem, "sqlstate", None)


def _is_passing(problem: Exception) -> bool:
    if not isinstance(problem, _TROUBLE) or is_lasting(str(problem)):
        return False
    state = _state(problem)
    if state is not None:
        return state.startswith(_PASSING)
    # A connection that breaks in the middle of rows comes as an error of Arrow's reader.
    return (
        isinstance(problem, OSError) or getattr(problem, "status_code", None) == adbc_driver_manager.AdbcStatusCode.IO
    )


def _told(problem: Exception) -> str:
    """What the server said, without the statement, which the driver repeats."""
    return str(problem).partition("\nQuery was:")[0].strip()
