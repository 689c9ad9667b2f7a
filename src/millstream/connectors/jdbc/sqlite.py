"""SQLite: what its catalogue says about a table, and the words in which it differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from millstream.connectors.jdbc.cells import Rows, bound
from millstream.connectors.jdbc.database import VIEW_MARK, Cursor, FoundColumn, Login, ViewOrigin, quoted
from millstream.connectors.jdbc.types import sqlite_holds, sqlite_type
from millstream.database.sqlite import SqliteSession
from millstream.model.schema import Schema

T = TypeVar("T")


class SqliteDatabase:
    """One connection to a database file."""

    mark = "?"

    def __init__(self, login: Login) -> None:
        # Later work of this process may change its folder; the file stays the same.
        path = Path(login.address.path).absolute()
        self._session = SqliteSession(path, fail=login.fail, patience=login.patience)

    def run(self, work: Callable[[Any], T]) -> T:
        """One transaction, repeated while another holds the file's lock."""
        return self._session.run(work)

    def name(self, table: str) -> str:
        """The quoted name."""
        return quoted(table)

    def lock_layout(self, cursor: Cursor) -> None:
        """The transaction holds the only write lock already."""

    def share_fence(self) -> str:
        """The transaction holds the only write lock already."""
        return ""

    def let_rows_go(self, cursor: Cursor, table: str) -> None:
        """They always can."""

    def lock_table(self, cursor: Cursor, table: str) -> None:
        """The transaction holds the only write lock already."""

    def columns(self, cursor: Cursor, table: str) -> Mapping[str, FoundColumn] | None:
        """From the table's own description; a single integer key fills itself."""
        cursor.execute('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?1)', (table,))
        rows = cursor.fetchall()
        return {
            name: FoundColumn(type=kind, must_be_given=bool(must and default is None and not key))
            for name, kind, must, default, key in rows
        } or None

    def view_origin(self, cursor: Cursor, view: str, query: str | None) -> ViewOrigin:
        """By its text, which SQLite keeps as it was written."""
        cursor.execute("SELECT type, sql FROM sqlite_master WHERE name = ?1 COLLATE NOCASE", (view,))
        definitions = dict(cursor.fetchall())
        if "view" not in definitions:
            return "foreign"
        if f"/* {VIEW_MARK} */" in definitions["view"]:
            return "marked"
        return "unmarked" if definitions["view"] == f"CREATE VIEW {self.name(view)} AS {query}" else "foreign"

    def create_view(self, cursor: Cursor, view: str, query: str) -> None:
        """With a remark in its text."""
        cursor.execute(f"CREATE VIEW {self.name(view)} AS /* {VIEW_MARK} */ {query}")

    def mark_view(self, cursor: Cursor, view: str, query: str) -> None:
        """The text of a view changes only by making it anew."""
        cursor.execute(f"DROP VIEW {self.name(view)}")
        self.create_view(cursor, view, query)

    def has_key(self, cursor: Cursor, table: str, keys: Sequence[str]) -> bool:
        """A primary key of one integer has no index of its own."""
        cursor.execute("SELECT name FROM pragma_table_info(?1) WHERE pk", (table,))
        if {name for (name,) in cursor.fetchall()} == set(keys):
            return True
        cursor.execute('SELECT name FROM pragma_index_list(?1) WHERE "unique" AND NOT partial', (table,))
        for (index,) in cursor.fetchall():
            cursor.execute("SELECT name FROM pragma_index_info(?1)", (index,))
            if {name for (name,) in cursor.fetchall()} == set(keys):
                return True
        return False

    def column_type(self, arrow: pa.DataType, name: str) -> str:
        """As in the table of types."""
        return sqlite_type(arrow, name)

    def holds(self, kind: str, arrow: pa.DataType, name: str) -> bool:
        """As in the table of types."""
        return sqlite_holds(kind, arrow, name)

    def moment(self) -> tuple[str, str]:
        """ISO text in UTC."""
        return "TEXT", "(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"

    def add(self, cursor: Any, table: str, schema: Schema, rows: Rows, before: Mapping[str, pa.Array]) -> None:
        """By one statement for many rows."""
        names = (*before, *schema.names)
        first = [values.to_pylist() for values in before.values()]
        columns = [bound(rows.table.column(field.name), field) for field in schema]
        marks = ", ".join(f"?{number + 1}" for number in range(len(names)))
        statement = f"INSERT INTO {table} ({', '.join(map(quoted, names))}) VALUES ({marks})"
        cursor.executemany(statement, zip(*first, *columns, strict=True))

    def temporary(self, cursor: Cursor, columns: str) -> str:
        """Temporary tables of SQLite live as long as the connection, so an earlier one may be there."""
        cursor.execute("DROP TABLE IF EXISTS temp.millstream_arrived")
        cursor.execute(f"CREATE TEMPORARY TABLE millstream_arrived ({columns})")
        return "temp.millstream_arrived"

    def refuses_nul(self) -> bool:
        """Text may hold any character."""
        return False

    def close(self) -> None:
        """Close the connection, if one is open."""
        self._session.close()
