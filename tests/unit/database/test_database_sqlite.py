"""SQLite sessions: what their file is told, whole transactions, and locks that are waited for."""

import contextlib
import sqlite3
import threading

import pytest

from millstream.database import sqlite
from millstream.database.sqlite import SqliteSession


class Failed(Exception):
    """What the owner of a session raises."""


def fail(trouble):
    raise Failed(trouble.is_passing, str(trouble.cause)) from None


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.db"


@pytest.fixture
def session(path):
    opened = SqliteSession(path, fail=fail)
    opened.query("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    yield opened
    opened.close()


@contextlib.contextmanager
def held(path):
    """The write lock of a file, in another connection."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def numbers(session):
    return [number for (number,) in session.query("SELECT n FROM t ORDER BY n")]


def add(*added):
    return lambda cursor: [cursor.execute("INSERT INTO t VALUES (?)", (number,)).rowcount for number in added]


def test_a_session_writes_ahead_and_waits_for_its_disk(session):
    assert session.query("PRAGMA journal_mode") == [("wal",)]
    assert session.query("PRAGMA synchronous") == [(2,)]
    assert session.query("PRAGMA busy_timeout") == [(30_000,)]


def test_a_session_that_is_told_nothing_changes_nothing(path):
    with contextlib.closing(SqliteSession(path, fail=fail, settings=())) as plain:
        assert plain.query("PRAGMA journal_mode") == [("delete",)]


def test_the_file_is_opened_with_the_first_statement(path):
    session = SqliteSession(path, fail=fail)
    session.close()
    assert not path.exists()
    assert session.query("SELECT 1") == [(1,)]
    session.close()
    assert session.query("SELECT 2") == [(2,)]
    session.close()


def test_changes_are_counted(session):
    assert session.change("INSERT INTO t VALUES (?), (?)", 1, 2) == 2
    assert session.change("DELETE FROM t WHERE n > ?", 5) == 0


def test_a_transaction_is_whole_or_absent(session):
    assert session.run(add(1, 2)) == [1, 1]
    with pytest.raises(Failed, match=r"False, 'UNIQUE constraint"):
        session.run(add(3, 1))
    with pytest.raises(ZeroDivisionError):
        session.run(lambda cursor: add(4)(cursor) and 1 / 0)
    assert numbers(session) == [1, 2]


def test_threads_share_a_session(session):
    def write(start):
        for number in range(start, start + 50):
            session.change("INSERT INTO t VALUES (?)", number)

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 50, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(session) == list(range(150))


def test_a_lock_that_is_given_back_is_waited_for(session, path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.01)
    session.close()
    with held(path) as other:
        giving_back = threading.Timer(0.3, other.execute, ("COMMIT",))
        giving_back.start()
        assert session.run(add(1)) == [1]
        giving_back.join()


def test_a_lock_that_stays_is_trouble_that_could_have_passed(session, path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.01)
    with contextlib.closing(SqliteSession(path, fail=fail, patience=0.1)) as impatient, held(path):
        with pytest.raises(Failed, match=r"True, 'database is locked'"):
            impatient.run(add(1))
        with pytest.raises(Failed, match="database is locked"):
            impatient.change("INSERT INTO t VALUES (1)")


def test_what_is_no_database_is_refused_and_closed(path):
    path.write_bytes(b"no database at all" * 100)
    session = SqliteSession(path, fail=fail)
    for attempt in (lambda: session.query("SELECT 1"), lambda: session.run(add(1))):
        with pytest.raises(Failed, match="not a database") as failed:
            attempt()
        assert failed.value.__cause__ is None
