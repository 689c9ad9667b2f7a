"""SQLite sessions: one writer at a time, the others wait; readers see the last committed transaction (WAL)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from millstream.database.retry import repeated
from millstream.database.session import Fail, Trouble

T = TypeVar("T")

BUSY_SECONDS = 30.0
"""How long a statement waits for the lock of another."""
DURABLE = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")
"""What a file is told before anything is written: a change that is confirmed is on disk."""
_WAITING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class SqliteSession:
    """One connection to a file; `query` and `change` from any thread, `run` from one at a time."""

    def __init__(
        self, path: Path, *, fail: Fail, patience: float = BUSY_SECONDS, settings: Sequence[str] = DURABLE
    ) -> None:
        self._path, self._fail, self._patience, self._settings = path, fail, patience, settings
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows."""
        return self._execute(statement, values)[0]

    def change(self, statement: str, *values: object) -> int:
        """Rows changed, on disk; a change that fails did not happen."""
        return self._execute(statement, values)[1]

    def run(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        """One transaction that holds the write lock from its start, so that it never has to give up half-way."""
        try:
            return repeated(lambda: self._transaction(work), passes=is_passing, patience=self._patience)
        except sqlite3.Error as problem:
            self._fail(Trouble(cause=problem, is_passing=is_passing(problem)))

    def close(self) -> None:
        """Close the file, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _execute(self, statement: str, values: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], int]:
        try:
            with self._lock:
                cursor = self._open().execute(statement, values)
                return cursor.fetchall(), cursor.rowcount
        except sqlite3.Error as problem:
            self._fail(Trouble(cause=problem))

    def _transaction(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        connection = self._open()
        cursor = connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            result = work(cursor)
            cursor.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        finally:
            cursor.close()
        return result

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._path, self._settings)
        return self._connection


def connect(path: Path, settings: Sequence[str]) -> sqlite3.Connection:
    """Open a file in which each statement commits itself; threads take turns."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        for statement in settings:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a file that is there, to change nothing in it."""
    place = f"file:{quote(str(path))}?mode=ro"
    return sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def is_passing(problem: Exception) -> bool:
    """Whether somebody else holds a lock, and will give it back."""
    # Extended codes carry the plain one in their lowest byte.
    return (getattr(problem, "sqlite_errorcode", 0) & 0xFF) in _WAITING
