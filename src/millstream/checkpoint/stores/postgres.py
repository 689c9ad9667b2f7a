"""Manifest stores in PostgreSQL: a connection that comes back after a restart of the server."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from millstream.checkpoint.stores.database import TABLE, DatabaseStore, StoreUrl, parse_url
from millstream.checkpoint.stores.remote import PATIENCE_SECONDS
from millstream.database.retry import Unanswered, attempts
from millstream.errors import CheckpointRefused

_DEFAULTS = {
    "application_name": "millstream",
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
_SETTINGS = (
    "SET lock_timeout = '10s'",
    "SET statement_timeout = '30s'",
    "SET default_transaction_isolation = 'read committed'",
    # Stronger levels stay as they are; a server that does not wait for its disk would lose what it confirmed.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)
_PERMANENT = ("authentication failed", "does not exist", "pg_hba.conf", "no password supplied", "SSL", "invalid ")
"""Words of libpq and the server for refusals that waiting does not change; any other refusal is waited for."""
_DEFINITION = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    store text NOT NULL,
    name text NOT NULL,
    content bytea NOT NULL,
    writer text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (store, name)
)"""
_HAS_TABLE = "SELECT 1 WHERE to_regclass(?) IS NOT NULL"
_DEFINITION_LOCK = 0x6D696C6C  # two that define the table at once would collide in the catalogue

_Connection = psycopg.Connection[TupleRow]


def open_postgres(url: str) -> DatabaseStore:
    """The store of `postgresql://user@host/database`; its table is made if it is missing."""
    parsed = parse_url(url)
    session = PostgresSession(parsed)
    try:
        session.define()
    except BaseException:
        session.close()
        raise
    return DatabaseStore(session, parsed)


def open_postgres_reader(url: str) -> DatabaseStore:
    """The store of a url, in transactions that the server keeps from writing; its table must be there."""
    parsed = parse_url(url)
    session = PostgresSession(parsed, settings=(*_SETTINGS, "SET default_transaction_read_only = on"))
    try:
        if not session.query(_HAS_TABLE, TABLE):
            msg = f"there is no checkpoint in {parsed.shown}"
            raise CheckpointRefused(msg, code="CKPT-016", hint="check --manifests URL: the database has no such table")
    except BaseException:
        session.close()
        raise
    return DatabaseStore(session, parsed)


class PostgresSession:
    """One connection for all threads, opened again when it breaks."""

    def __init__(self, url: StoreUrl, *, settings: tuple[str, ...] = _SETTINGS) -> None:
        self._url, self._settings, self._lock = url, settings, threading.RLock()
        self._connection: _Connection | None = None

    def define(self) -> None:
        """Make the table, if it is missing; an existing one asks for no right to create."""
        if self.query(_HAS_TABLE, TABLE):
            return
        with self._lock:
            try:
                with self._open().transaction():
                    self._execute("SELECT pg_advisory_xact_lock(?)", (_DEFINITION_LOCK,))
                    self._execute(_DEFINITION, ())
            except psycopg.Error as problem:
                raise self._url.failure(problem) from None

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows; asked again when the connection breaks."""
        problem: Unanswered | None = None
        for _ in attempts(PATIENCE_SECONDS):
            try:
                return self._run(statement, values)[0]
            except Unanswered as unanswered:
                problem = unanswered
        raise self._url.failure(problem)

    def change(self, statement: str, *values: object) -> int:
        """Rows changed; `Unanswered` when the connection breaks before the reply."""
        return self._run(statement, values)[1]

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _run(self, statement: str, values: tuple[object, ...]) -> tuple[list[tuple[Any, ...]], int]:
        with self._lock:
            connection = self._open()
            try:
                cursor = self._execute(statement, values)
                return (cursor.fetchall() if cursor.description else []), cursor.rowcount
            except psycopg.Error as problem:
                if connection.closed:
                    raise Unanswered(str(problem)) from None
                raise self._url.failure(problem) from None

    def _execute(self, statement: str, values: tuple[object, ...]) -> psycopg.Cursor[TupleRow]:
        # Statements are constants of this package; every value is bound.
        return self._open().execute(statement.replace("?", "%s"), values, binary=True)

    def _open(self) -> _Connection:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        problem: psycopg.Error | None = None
        for _ in attempts(PATIENCE_SECONDS):
            try:
                self._connection = self._connect()
            except psycopg.Error as refusal:
                problem = refusal
                if any(word in str(refusal) for word in _PERMANENT):
                    break
            else:
                return self._connection
        hint = "check that the database runs, and the host, user and password of the url"
        raise self._url.failure(problem, hint=hint) from None

    def _connect(self) -> _Connection:
        # What the url says comes first: it may name other time limits.
        given = psycopg.conninfo.conninfo_to_dict(self._url.driver)
        merged = psycopg.conninfo.make_conninfo("", **{**_DEFAULTS, **given})
        connection = psycopg.connect(merged, autocommit=True)
        try:
            for statement in self._settings:
                connection.execute(statement)
        except psycopg.Error:
            connection.close()
            raise
        return connection
