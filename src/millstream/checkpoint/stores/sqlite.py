"""Manifest stores in a SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from millstream.checkpoint.stores.database import TABLE, DatabaseStore, DatabaseUrl, parse_url
from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.errors import InvalidPlan

_BUSY_SECONDS = 30.0
_SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")
_DEFINITION = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    store TEXT NOT NULL,
    name TEXT NOT NULL,
    content BLOB NOT NULL,
    writer TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (store, name)
)"""


def open_sqlite(url: str) -> DatabaseStore:
    """The store of `sqlite:///relative.db` or `sqlite:////absolute.db`; the file is made if it is missing."""
    parsed = parse_url(url)
    path = unquote(parsed.driver.removeprefix("sqlite:///"))
    if not parsed.driver.startswith("sqlite:///") or path in {"", ":memory:"}:
        msg = "the url of the store names no file"
        raise InvalidPlan(
            msg, code="PLAN-034", found=url, known="sqlite:///relative.db, sqlite:////absolute.db", hint="name a file"
        )
    return DatabaseStore(SqliteSession(Path(path), parsed), parsed)


class SqliteSession:
    """One connection for all threads. A statement returns when its change is on disk, or fails and changed nothing."""

    def __init__(self, path: Path, url: DatabaseUrl) -> None:
        self._url, self._lock = url, threading.Lock()
        make_directory(path.absolute().parent)
        try:
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            for statement in (*_SETTINGS, _DEFINITION):
                self._connection.execute(statement)
        except sqlite3.Error as problem:
            raise url.failure(problem) from None
        sync_directory(path.absolute().parent)  # SQLite syncs the file; its name is new

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows."""
        return self._run(statement, values)[0]

    def change(self, statement: str, *values: object) -> int:
        """Rows changed."""
        return self._run(statement, values)[1]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _run(self, statement: str, values: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], int]:
        try:
            with self._lock:
                cursor = self._connection.execute(statement, values)
                return cursor.fetchall(), cursor.rowcount
        except sqlite3.Error as problem:
            raise self._url.failure(problem) from None
