"""Manifest stores in PostgreSQL."""

from __future__ import annotations

from typing import Any

import psycopg

from millstream.checkpoint.stores.database import (
    TABLE,
    DatabaseStore,
    StoreUrl,
    check_table,
    closed_on_failure,
    parse_url,
)
from millstream.checkpoint.stores.remote import PATIENCE_SECONDS
from millstream.database.postgres import Connection, PostgresSession, connect, noticing

_DEFAULTS = {"application_name": "millstream", **noticing(idle=5, interval=2, unconfirmed=15)}
_SETTINGS = (
    "SET lock_timeout = '10s'",
    "SET statement_timeout = '30s'",
    "SET default_transaction_isolation = 'read committed'",
    # Stronger levels stay as they are; a server that does not wait for its disk would lose what it confirmed.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)
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


def open_postgres(url: str) -> DatabaseStore:
    """The store of `postgresql://user@host/database`; its table is made if it is missing."""
    parsed = parse_url(url)
    session = _session(parsed)
    with closed_on_failure(session):
        # An existing table asks for no right to create.
        if not session.query(_HAS_TABLE, TABLE):
            session.run(_define)
    return DatabaseStore(session, parsed)


def open_postgres_reader(url: str) -> DatabaseStore:
    """The store of a url, in transactions that the server keeps from writing; its table must be there."""
    parsed = parse_url(url)
    session = _session(parsed, "SET default_transaction_read_only = on")
    with closed_on_failure(session):
        check_table(session.query(_HAS_TABLE, TABLE), parsed)
    return DatabaseStore(session, parsed)


def _session(url: StoreUrl, *settings: str) -> PostgresSession:
    def connecting() -> Connection:
        # What the url says comes first: it may name other time limits.
        given = psycopg.conninfo.conninfo_to_dict(url.driver)
        return connect({**_DEFAULTS, **given}, set_up)

    def set_up(connection: Connection) -> None:
        for statement in (*_SETTINGS, *settings):
            connection.execute(statement)

    return PostgresSession(connecting, patience=PATIENCE_SECONDS, fail=url.fail)


def _define(cursor: psycopg.Cursor[Any]) -> None:
    cursor.execute("SELECT pg_advisory_xact_lock($1)", (_DEFINITION_LOCK,))
    cursor.execute(_DEFINITION)
