"""Manifest stores in a SQLite file."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from millstream.checkpoint.stores.database import (
    TABLE,
    DatabaseStore,
    StoreUrl,
    check_table,
    closed_on_failure,
    parse_url,
)
from millstream.checkpoint.stores.local import make_directory, sync_directory
from millstream.database.retry import attempts
from millstream.database.sqlite import BUSY_SECONDS, SqliteSession
from millstream.errors import InvalidPlan

_DEFINITION = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    store TEXT NOT NULL,
    name TEXT NOT NULL,
    content BLOB NOT NULL,
    writer TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (store, name)
)"""
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE name = ?"


def open_sqlite(url: str) -> DatabaseStore:
    """The store of `sqlite:///relative.db` or `sqlite:////absolute.db`; the file is made if it is missing."""
    parsed, path = _parsed(url)
    make_directory(path.parent)
    session = SqliteSession(path, fail=parsed.fail)
    with closed_on_failure(session):
        session.query(_DEFINITION)
        sync_directory(path.parent)  # SQLite syncs the file; its name is new
    return DatabaseStore(session, parsed)


def open_sqlite_copy(url: str) -> DatabaseStore:
    """The store of a url as it is now, from a copy: SQLite cannot look at a file in WAL mode without writing beside it."""
    parsed, path = _parsed(url)
    folder = tempfile.TemporaryDirectory(prefix="millstream-")
    session = CopySession(path.name, folder, parsed)
    with closed_on_failure(session):
        _copy_unchanged(path, Path(folder.name), parsed)
        check_table(session.query(_HAS_TABLE, TABLE), parsed)
    return DatabaseStore(session, parsed)


def _parsed(url: str) -> tuple[StoreUrl, Path]:
    parsed = parse_url(url)
    if unknown := sorted(parsed.address.parameters):
        msg = f"the url of the store has the unknown parameter {unknown[0]!r}"
        raise InvalidPlan(msg, code="PLAN-034", found=parsed.shown, known="store", hint="leave it out")
    return parsed, Path(parsed.address.path).absolute()


def _copy_unchanged(path: Path, folder: Path, url: StoreUrl) -> None:
    """Copy a database and its log between two writes of whoever runs it."""
    for _ in attempts(BUSY_SECONDS):
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
    stamps = {}
    for file in (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(FileNotFoundError):
            stamp = file.stat()
            stamps[file] = (stamp.st_size, stamp.st_mtime_ns)
    return stamps


class CopySession(SqliteSession):
    """A session of a copy, which goes with it."""

    def __init__(self, name: str, folder: tempfile.TemporaryDirectory[str], url: StoreUrl) -> None:
        super().__init__(Path(folder.name) / name, fail=url.fail, settings=())
        self._folder = folder

    def close(self) -> None:
        """Close the file and remove it."""
        super().close()
        self._folder.cleanup()
