"""PostgreSQL sessions: connections that notice a silent server and come back after its restart."""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import psycopg

from millstream.database.retry import Unanswered, repeated
from millstream.database.session import Fail, Trouble
from millstream.database.url import DatabaseUrl

T = TypeVar("T")
Connection = psycopg.Connection[Any]

_ALWAYS = {"connect_timeout": 5, "keepalives": 1, "keepalives_count": 3}
_CANCEL_SECONDS = 5.0
_LASTING = re.compile(
    r"authentication failed|no password supplied|pg_hba\.conf|does not exist"
    r"|does not support SSL|SSL support is not|SSL error: .*(?:certificate|unknown ca)"
    r"|invalid [\w ]*(?:value|number|option|parameter)"
    r"|requires \"?wal_level|can no longer (?:get changes|access)|does not have a replica identity"
)
"""Words of libpq and the server for refusals that waiting does not change; any other refusal is waited for."""


class PostgresSession:
    """One connection, opened again when it breaks; `query` and `change` from any thread, `run` from one at a time."""

    def __init__(self, connecting: Callable[[], Connection], *, patience: float, fail: Fail) -> None:
        self._connecting, self._patience, self._fail = connecting, patience, fail
        self._lock = threading.RLock()
        self._connection: Connection | None = None

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows; asked again when the connection breaks."""
        try:
            rows, _ = repeated(lambda: self._execute(statement, values), passes=_is_unanswered, patience=self._patience)
        except Unanswered as unanswered:
            self._fail(Trouble(cause=unanswered, is_passing=True))
        return rows

    def change(self, statement: str, *values: object) -> int:
        """Rows changed; `Unanswered` when the connection breaks before the reply."""
        return self._execute(statement, values)[1]

    def run(self, work: Callable[[psycopg.Cursor[Any]], T]) -> T:
        """One transaction, repeated while the server is away, starting up, or holds a lock for another."""
        try:
            return repeated(lambda: self._transaction(work), passes=is_passing, patience=self._patience)
        except psycopg.Error as problem:
            self._fail(Trouble(cause=problem, is_passing=is_passing(problem)))

    def cancel(self) -> None:
        """End the statement that is under way in another thread, if there is one; it fails there."""
        connection = self._connection
        if connection is not None and not connection.closed:
            with contextlib.suppress(psycopg.Error):  # whether it came in time is seen in the other thread
                connection.cancel_safe(timeout=_CANCEL_SECONDS)

    def close(self) -> None:
        """Close the connection, if one is open."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(psycopg.Error):  # it may be gone already
                    connection.close()

    def _execute(self, statement: str, values: tuple[object, ...]) -> tuple[list[tuple[Any, ...]], int]:
        with self._lock:
            connection = self._open()
            try:
                cursor = connection.execute(_numbered(statement), values, binary=True)
                return (cursor.fetchall() if cursor.description else []), cursor.rowcount
            except psycopg.Error as problem:
                if connection.closed:
                    raise Unanswered(str(problem)) from None
                self._fail(Trouble(cause=problem))

    def _transaction(self, work: Callable[[psycopg.Cursor[Any]], T]) -> T:
        try:
            connection = self._opened_once()
            with connection.transaction(), connection.cursor() as cursor:
                return work(cursor)
        except psycopg.Error:
            # Whatever state it is in, it is not asked again.
            self.close()
            raise

    def _open(self) -> Connection:
        try:
            return repeated(self._opened_once, passes=is_passing, patience=self._patience)
        except psycopg.Error as problem:
            self._fail(Trouble(cause=problem, is_passing=is_passing(problem), is_connecting=True))

    def _opened_once(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._connecting()
        return self._connection


def connect(settings: Mapping[str, Any], set_up: Callable[[Connection], object]) -> Connection:
    """Open a connection in which each statement commits itself, and let `set_up` tell the server what holds in it."""
    conninfo = psycopg.conninfo.make_conninfo("", **settings)
    # Statements are not prepared: connection poolers lose them, and their plans forget how many rows wait.
    connection: Connection = psycopg.connect(
        conninfo, cursor_factory=psycopg.RawCursor, autocommit=True, prepare_threshold=None
    )
    try:
        set_up(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def noticing(*, idle: int, interval: int, unconfirmed: int) -> dict[str, int]:
    """Settings by which a silent server is noticed: seconds before a probe, between probes, and without a confirmation."""
    waits = {"keepalives_idle": idle, "keepalives_interval": interval, "tcp_user_timeout": unconfirmed * 1000}
    return {**_ALWAYS, **waits}


def server_settings(address: DatabaseUrl, password: str) -> dict[str, Any]:
    """What a checked url says of the server, as the driver takes it."""
    known = {"host": address.host, "port": address.port, "user": address.user, "password": password}
    return {**{k: v for k, v in known.items() if v}, **address.parameters, "dbname": address.database}


def is_passing(problem: Exception) -> bool:
    """Whether the server is away, starting up, or busy with another, and may answer later."""
    if isinstance(problem, psycopg.errors.IdleInTransactionSessionTimeout | psycopg.InterfaceError):
        return True
    return isinstance(problem, psycopg.OperationalError) and not is_lasting(str(problem))


def is_lasting(text: str) -> bool:
    """Whether a text of libpq or the server is a refusal that waiting does not change."""
    return _LASTING.search(text) is not None


def _is_unanswered(problem: Exception) -> bool:
    return isinstance(problem, Unanswered)


def _numbered(statement: str) -> str:
    numbers = itertools.count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", statement)
