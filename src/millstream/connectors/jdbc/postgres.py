"""PostgreSQL: connections that cannot stall others for long, COPY, and what its catalogue says about a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from millstream.connectors.jdbc.cells import Rows
from millstream.connectors.jdbc.database import VIEW_MARK, Cursor, FoundColumn, Login, ViewOrigin, quoted
from millstream.connectors.jdbc.types import postgres_holds, postgres_type
from millstream.database.postgres import Connection, PostgresSession, connect, noticing
from millstream.model.schema import Schema

T = TypeVar("T")

LOCK_TIMEOUT = "5s"
IDLE_TIMEOUT = "10s"
"""After which the server cuts an owner that stalls inside a transaction, and with it its hold on the fence."""

_LAYOUT_LOCK = 0x6D696C6C73747265
_SETTINGS = """
SELECT set_config('idle_in_transaction_session_timeout', $1, false), set_config('lock_timeout', $2, false),
       set_config('timezone', 'UTC', false)"""
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = ''
FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped"""
_IS_HELD = """
SELECT c.relreplident = 'd' AND pg_has_role(c.relowner, 'USAGE') AND EXISTS (
    SELECT FROM pg_publication_tables t WHERE t.schemaname = n.nspname AND t.tablename = c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)"""
_VIEW = """
SELECT c.relkind::text, obj_description(c.oid, 'pg_class'), CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END
FROM pg_class c WHERE c.oid = to_regclass($1)"""
_MAY_COMMENT = "SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = to_regclass($1)"
_KEYS = """
SELECT array_agg(a.attname::text) FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid"""


class PostgresDatabase:
    """A PostgreSQL database, reached by one session."""

    mark = "$"

    def __init__(self, login: Login, schema: str | None) -> None:
        self._schema = schema
        self._session = PostgresSession(lambda: _connected(login), patience=login.patience, fail=login.fail)

    def run(self, work: Callable[[Any], T]) -> T:
        """One transaction, repeated while the server is away, starting up, or holds a lock for another."""

        def bounded(cursor: Any) -> T:
            cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'".encode())
            return work(cursor)

        return self._session.run(bounded)

    def name(self, table: str) -> str:
        """The quoted name, in its schema."""
        return quoted(table) if self._schema is None else f"{quoted(self._schema)}.{quoted(table)}"

    def lock_layout(self, cursor: Cursor) -> None:
        """`CREATE TABLE IF NOT EXISTS` fails when two do it at once."""
        cursor.execute("SELECT pg_advisory_xact_lock($1)", (_LAYOUT_LOCK,))

    def share_fence(self) -> str:
        """Writers hold the fence side by side; whoever wants to raise it waits for them."""
        return "FOR SHARE"

    def let_rows_go(self, cursor: Cursor, table: str) -> None:
        """A publication of all tables holds ours too; without a replica identity the server refuses to delete from them."""
        cursor.execute(_IS_HELD, (self.name(table),))
        if cursor.fetchone()[0]:
            cursor.execute(f"ALTER TABLE {self.name(table)} REPLICA IDENTITY FULL")

    def lock_table(self, cursor: Cursor, table: str) -> None:
        """Two that replace at once would each delete what was there before, and leave the rows of both."""
        cursor.execute(f"LOCK TABLE {self.name(table)} IN SHARE ROW EXCLUSIVE MODE")

    def columns(self, cursor: Cursor, table: str) -> Mapping[str, FoundColumn] | None:
        """From the catalogue, so that rights on the table do not matter."""
        cursor.execute(_COLUMNS, (self.name(table),))
        rows = cursor.fetchall()
        return {name: FoundColumn(type=kind, must_be_given=must) for name, kind, must in rows} or None

    def view_origin(self, cursor: Cursor, view: str, query: str | None) -> ViewOrigin:
        """By the comment; without one, by comparing the text with that of a view made for the purpose."""
        cursor.execute(_VIEW, (self.name(view),))
        kind, comment, text = cursor.fetchone()
        if kind != "v":
            return "foreign"
        if (comment or "").startswith(VIEW_MARK):
            return "marked"
        if query is None:
            return "foreign"
        # The server writes every text in its own way, and both in the same.
        cursor.execute(f"CREATE TEMPORARY VIEW millstream_compared AS {query}")
        cursor.execute("SELECT pg_get_viewdef('pg_temp.millstream_compared'::regclass)")
        is_equal = cursor.fetchone()[0] == text
        cursor.execute("DROP VIEW pg_temp.millstream_compared")
        return "unmarked" if is_equal else "foreign"

    def create_view(self, cursor: Cursor, view: str, query: str) -> None:
        """With a comment."""
        cursor.execute(f"CREATE VIEW {self.name(view)} AS {query}")
        self.mark_view(cursor, view, query)

    def mark_view(self, cursor: Cursor, view: str, query: str) -> None:
        """Only its owner may: a view that another role made stays as it is, and is compared again next time."""
        cursor.execute(_MAY_COMMENT, (self.name(view),))
        if cursor.fetchone()[0]:
            cursor.execute(f"COMMENT ON VIEW {self.name(view)} IS '{VIEW_MARK}'")

    def has_key(self, cursor: Cursor, table: str, keys: Sequence[str]) -> bool:
        """Partial indexes and indexes on expressions do not count."""
        cursor.execute(_KEYS, (self.name(table),))
        return any(set(names) == set(keys) for (names,) in cursor.fetchall())

    def column_type(self, arrow: pa.DataType, name: str) -> str:
        """As in the table of types."""
        return postgres_type(arrow, name)

    def holds(self, kind: str, arrow: pa.DataType, name: str) -> bool:
        """As in the table of types."""
        return postgres_holds(kind, arrow, name)

    def moment(self) -> tuple[str, str]:
        """`now()` would be the start of the transaction."""
        return "timestamp with time zone", "clock_timestamp()"

    def add(self, cursor: Any, table: str, schema: Schema, rows: Rows, before: Mapping[str, pa.Array]) -> None:
        """By COPY."""
        names = ", ".join(map(quoted, (*before, *schema.names)))
        with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            copy.write(rows.copy_text(*before.values()))

    def temporary(self, cursor: Cursor, columns: str) -> str:
        """Dropped by the server."""
        cursor.execute(f"CREATE TEMPORARY TABLE millstream_arrived ({columns}) ON COMMIT DROP")
        return "millstream_arrived"

    def refuses_nul(self) -> bool:
        """Neither text nor jsonb may hold it."""
        return True

    def close(self) -> None:
        """Close the connection, if one is open."""
        self._session.close()


def _connected(login: Login) -> Connection:
    return connect(
        connection_settings(login), lambda connection: connection.execute(_SETTINGS, (IDLE_TIMEOUT, LOCK_TIMEOUT))
    )


def connection_settings(login: Login) -> dict[str, Any]:
    """What a driver is told to reach the server, and to notice when it is gone."""
    address = login.address
    known = {"host": address.host, "port": address.port, "user": address.user, "password": login.password()}
    return {
        **noticing(idle=10, interval=3, unconfirmed=20),
        **{name: value for name, value in known.items() if value},
        **address.parameters,
        "dbname": address.database,
        "application_name": f"millstream {login.job}/{login.step}"[:63],
    }
