"""PostgreSQL: connections that cannot stall others for long, COPY, and what its catalogue says about a table."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
import pyarrow as pa

from millstream.connectors.jdbc.cells import Rows
from millstream.connectors.jdbc.database import VIEW_MARK, Cursor, FoundColumn, Login, ViewOrigin, outliving, quoted
from millstream.connectors.jdbc.types import postgres_holds, postgres_type
from millstream.model.schema import Schema

T = TypeVar("T")

LOCK_TIMEOUT = "5s"
IDLE_TIMEOUT = "10s"
"""After which the server cuts an owner that stalls inside a transaction, and with it its hold on the fence."""

_LAYOUT_LOCK = 0x6D696C6C73747265
_SETTINGS = """
SELECT set_config('idle_in_transaction_session_timeout', $1, false), set_config('lock_timeout', $2, false),
       set_config('timezone', 'UTC', false)"""
_TCP = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_FOR_GOOD = re.compile(r"password authentication failed|no password supplied|does not exist|no pg_hba\.conf entry")
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = ''
FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped"""
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
    """One connection, opened when it is needed and again after it was lost."""

    mark = "$"

    def __init__(self, login: Login, schema: str | None) -> None:
        self._login = login
        self._schema = schema
        self._connection: psycopg.Connection[Any] | None = None

    def run(self, work: Callable[[Any], T]) -> T:
        """One transaction, repeated while the server is away, starting up, or holds a lock for another."""
        return outliving(lambda: self._once(work), _is_transient, self._login, psycopg.Error)

    def _once(self, work: Callable[[Any], T]) -> T:
        try:
            connection = self._connection = self._connection or self._connect()
            with connection.transaction(), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'".encode())
                return work(cursor)
        except psycopg.Error:
            # Whatever state it is in, it is not asked again.
            self.close()
            raise

    def _connect(self) -> psycopg.Connection[Any]:
        address = self._login.address
        known = {"host": address.host, "port": address.port, "user": address.user, "password": self._login.password()}
        settings: dict[str, Any] = {
            **_TCP,
            **{name: value for name, value in known.items() if value},
            **address.parameters,
            "dbname": address.database,
            "application_name": f"millstream {self._login.job}/{self._login.step}"[:63],
        }
        # Statements are not prepared: connection poolers lose them, and their plans forget how many rows wait.
        connection = psycopg.connect(
            cursor_factory=psycopg.RawCursor, autocommit=True, prepare_threshold=None, **settings
        )
        connection.execute(_SETTINGS, (IDLE_TIMEOUT, LOCK_TIMEOUT))
        return connection

    def name(self, table: str) -> str:
        """The quoted name, in its schema."""
        return quoted(table) if self._schema is None else f"{quoted(self._schema)}.{quoted(table)}"

    def lock_layout(self, cursor: Cursor) -> None:
        """`CREATE TABLE IF NOT EXISTS` fails when two do it at once."""
        cursor.execute("SELECT pg_advisory_xact_lock($1)", (_LAYOUT_LOCK,))

    def share_fence(self) -> str:
        """Writers hold the fence side by side; whoever wants to raise it waits for them."""
        return "FOR SHARE"

    def columns(self, cursor: Cursor, table: str) -> Mapping[str, FoundColumn] | None:
        """From the catalogue, so that rights on the table do not matter."""
        cursor.execute(_COLUMNS, (self.name(table),))
        found = cursor.fetchall()
        return {name: FoundColumn(type=kind, must_be_given=must) for name, kind, must in found} or None

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

    def holds(self, found: str, arrow: pa.DataType, name: str) -> bool:
        """As in the table of types."""
        return postgres_holds(found, arrow, name)

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
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):  # it may be gone already
                connection.close()


def _is_transient(problem: Exception) -> bool:
    if isinstance(problem, psycopg.errors.IdleInTransactionSessionTimeout | psycopg.InterfaceError):
        return True
    return isinstance(problem, psycopg.OperationalError) and not _FOR_GOOD.search(str(problem))
