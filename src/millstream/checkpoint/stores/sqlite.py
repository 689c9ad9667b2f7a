"""Manifest stores in a SQLite file."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import threading
from pathlib import Path
from typing import Any

from millstream.checkpoint.stores.database import TABLE, DatabaseStore, StoreUrl, parse_url
from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.database.retry import attempts
from millstream.errors import CheckpointRefused, InvalidPlan

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
    parsed, path = _parsed(url)
    make_directory(path.absolute().parent)
    session = SqliteSession(path, parsed, statements=(*_SETTINGS, _DEFINITION))
    sync_directory(path.absolute().parent)  # SQLite syncs the file; its name is new
    return DatabaseStore(session, parsed)


def open_sqlite_copy(url: str) -> DatabaseStore:
    """The store of a url as it is now, from a copy: SQLite cannot look at a file in WAL mode without writing beside it."""
    parsed, path = _parsed(url)
    copied = tempfile.TemporaryDirectory(prefix="millstream-")
    try:
        _copy_unchanged(path, Path(copied.name), parsed)
        session = SqliteSession(Path(copied.name) / path.name, parsed, copied=copied)
        if not session.query("SELECT 1 FROM sqlite_master WHERE name = ?", TABLE):
            session.close()
            msg = f"there is no checkpoint in {parsed.shown}"
            raise CheckpointRefused(msg, code="CKPT-016", hint="check --manifests URL: the database has no such table")
    except BaseException:
        copied.cleanup()
        raise
    return DatabaseStore(session, parsed)


def _parsed(url: str) -> tuple[StoreUrl, Path]:
    parsed = parse_url(url)
    if unknown := sorted(parsed.address.parameters):
        msg = f"the url of the store has the unknown parameter {unknown[0]!r}"
        raise InvalidPlan(msg, code="PLAN-034", found=parsed.shown, known="store", hint="leave it out")
    return parsed, Path(parsed.address.path)


def _copy_unchanged(path: Path, folder: Path, url: StoreUrl) -> None:
    """Copy a database and its log between two writes of whoever runs it."""
    for _ in attempts(_BUSY_SECONDS):
        before = _stamps(path)
        with contextlib.suppress(FileNotFoundError):  # the log goes with the last that wrote
            for file in before:
                shutil.copyfile(file, folder / file.name)
            if _stamps(path) == before:
                return
        for file in folder.iterdir():
            file.unlink()
    why = "it changes all the time"
    raise url.failure(why, hint="look again")


def _stamps(path: Path) -> dict[Path, tuple[int, int]]:
    found = {}
    for file in (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(FileNotFoundError):
            stamp = file.stat()
            found[file] = (stamp.st_size, stamp.st_mtime_ns)
    return found


class SqliteSession:
    """One connection for all threads. A statement returns when its change is on disk, or fails and changed nothing."""

    def __init__(
        self,
        path: Path,
        url: StoreUrl,
        *,
        statements: tuple[str, ...] = (),
        copied: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self._url, self._lock, self._copied = url, threading.Lock(), copied
        try:
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as problem:
            raise url.failure(problem) from None
        try:
            for statement in statements:
                self._connection.execute(statement)
        except sqlite3.Error as problem:
            self._connection.close()
            raise url.failure(problem) from None

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows."""
        return self._run(statement, values)[0]

    def change(self, statement: str, *values: object) -> int:
        """Rows changed."""
        return self._run(statement, values)[1]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        if self._copied is not None:
            self._copied.cleanup()

    def _run(self, statement: str, values: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], int]:
        try:
            with self._lock:
                cursor = self._connection.execute(statement, values)
                return cursor.fetchall(), cursor.rowcount
        except sqlite3.Error as problem:
            raise self._url.failure(problem) from None
