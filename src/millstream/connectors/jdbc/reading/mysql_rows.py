"""Rows of MySQL and MariaDB as Arrow, by connectorx: a connection for each statement."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import connectorx
import pyarrow as pa

from millstream.connectors.jdbc.database import Login
from millstream.connectors.jdbc.reading.keys import KeyValues, encoded
from millstream.connectors.jdbc.reading.mysql_words import MysqlDialect
from millstream.connectors.jdbc.reading.probe import StatementTimedOut
from millstream.connectors.jdbc.reading.relation import source_of
from millstream.connectors.jdbc.reading.statements import Statement
from millstream.database.retry import repeated
from millstream.database.session import Trouble
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema

T = TypeVar("T")

_FETCHED = 20_000
_CONNECT_SECONDS = 5.0
_CODE = re.compile(r"ERROR (\d+) ")
_TIMED_OUT = frozenset({"1969", "3024", "1317"})
_PASSING = re.compile(r"ERROR (1040|1053|1205|1213) |DriverError|IoError|timed out waiting for connection")


class _Refused(Exception):
    """What the driver said; its own errors are of no kind, and some of them no exceptions."""


class MysqlRows:
    """A worker's way to MySQL or MariaDB."""

    dialect = MysqlDialect()

    def __init__(self, options: Options, login: Login, *, timeout: int, server: str) -> None:
        self._login, self._timeout, self._server = login, timeout, server
        self.source = source_of(options, self.dialect)

    def table(self, statement: Statement, schema: Schema) -> pa.Table:
        """All rows at once."""
        del schema
        return self._run(lambda: self._read(statement, return_type="arrow"))

    def stream(self, statement: Statement, schema: Schema) -> Iterator[pa.Table]:
        """The rows as the server sends them."""
        del schema
        batches = self._run(lambda: self._read(statement, return_type="arrow_stream", batch_size=_FETCHED))
        while (batch := self._run(lambda: _next(batches), patience=0.0)) is not None:
            yield pa.Table.from_batches([batch])

    def keys(self, statement: Statement) -> list[KeyValues]:
        """With their type."""
        table = self._run(lambda: self._read(statement, return_type="arrow"))
        return [[encoded(value) for value in row.values()] for row in table.to_pylist()]

    def guards(self, field: Field, form: str) -> list[str]:
        """There are no arrays."""
        del field, form
        return []

    def close(self) -> None:
        """Nothing stays open."""

    def _run(self, work: Callable[[], T], *, patience: float | None = None) -> T:
        try:
            return repeated(work, passes=_is_passing, patience=self._login.patience if patience is None else patience)
        except (_Refused, OSError) as problem:
            text = self._login.address.hidden(str(problem))
            code = _CODE.search(text)
            if code is not None and code[1] in _TIMED_OUT:
                raise StatementTimedOut(text) from problem
            self._login.fail(Trouble(cause=RuntimeError(text), is_passing=_is_passing(problem)))

    def _read(self, statement: Statement, **how: Any) -> Any:
        address = self._login.address
        host, port = address.host or "localhost", address.port or 3306
        # The driver tries for half a minute, and writes about it.
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        login = f"{quote(address.user, safe='')}:{quote(self._login.password(), safe='')}"
        url = f"mysql://{login}@{host}:{port}/{quote(address.database, safe='')}"
        return _told(lambda: connectorx.read_sql(url, self._bounded(statement.text), **how))

    def _bounded(self, text: str) -> str:
        """The statement with its time-out, and times in UTC."""
        if self._server == "mariadb":
            return f"SET STATEMENT max_statement_time = {self._timeout / 1000}, time_zone = '+00:00' FOR {text}"
        hints = f"MAX_EXECUTION_TIME({self._timeout}) SET_VAR(time_zone = '+00:00')"
        return text.replace("SELECT ", f"SELECT /*+ {hints} */ ", 1)


def _next(batches: Any) -> pa.RecordBatch | None:
    try:
        return _told(batches.read_next_batch)
    except StopIteration:
        return None


def _told(call: Callable[[], T]) -> T:
    try:
        return call()
    except (RuntimeError, pa.ArrowException) as problem:
        raise _Refused(str(problem)) from problem
    except BaseException as problem:
        # A panic of the driver is no Exception.
        if type(problem).__name__ != "PanicException":
            raise
        raise _Refused(str(problem)) from problem


def _is_passing(problem: Exception) -> bool:
    return isinstance(problem, OSError) or _PASSING.search(str(problem)) is not None
