"""PostgreSQL sessions against a real server: broken connections, locks, refusals, and what is left open."""

import contextlib

import psycopg
import pytest

from millstream.database.postgres import PostgresSession, connect, is_passing, noticing
from millstream.database.retry import Unanswered
from millstream.database.url import address_of

NAME = "millstream database-test"


class Failed(Exception):
    """What the owner of a session raises."""

    def __init__(self, trouble):
        super().__init__(str(trouble.cause))
        self.trouble = trouble


def fail(trouble):
    raise Failed(trouble) from None


def opened(url, *, patience=20.0, set_up=lambda connection: None, **settings):
    given = {**noticing(idle=5, interval=2, unconfirmed=15), **psycopg.conninfo.conninfo_to_dict(url), **settings}
    return PostgresSession(lambda: connect({**given, "application_name": NAME}, set_up), patience=patience, fail=fail)


def end_connections(server):
    """What a restart does to a session."""
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{NAME}'")


@pytest.fixture
def session(postgres):
    postgres.execute("DROP TABLE IF EXISTS database_test")
    postgres.execute("CREATE TABLE database_test (n integer PRIMARY KEY, word text)")
    session = opened(postgres.url)
    yield session
    session.close()


def test_statements_with_values(session):
    assert session.change("INSERT INTO database_test VALUES (?, ?), (?, ?)", 1, "one", 2, "two") == 2
    assert session.query("SELECT word FROM database_test WHERE n = ? AND word <> ?", 2, "x") == [("two",)]
    assert session.query("DELETE FROM database_test WHERE n = ?", 1) == []
    assert session.change("DELETE FROM database_test WHERE n = ?", 1) == 0


def test_every_connection_is_set_up(postgres):
    session = opened(postgres.url, set_up=lambda connection: connection.execute("SET lock_timeout = '7s'"))
    for _ in range(2):
        shown = {name: session.query(f"SHOW {name}")[0][0] for name in ("lock_timeout", "application_name")}
        assert shown == {"lock_timeout": "7s", "application_name": NAME}
        end_connections(postgres)
    session.close()


def test_a_connection_that_cannot_be_set_up_is_closed(postgres):
    session = opened(postgres.url, set_up=lambda connection: connection.execute("SET nothing_like_it = 1"))
    with pytest.raises(Failed, match="unrecognized configuration parameter") as failed:
        session.query("SELECT 1")
    assert (failed.value.trouble.is_connecting, failed.value.trouble.is_passing) == (True, False)
    assert postgres.execute(f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}'") == [(0,)]


def test_a_query_is_asked_again_and_a_change_is_not(session, postgres):
    session.change("INSERT INTO database_test VALUES (1, 'one')")
    end_connections(postgres)
    assert session.query("SELECT n FROM database_test") == [(1,)]
    end_connections(postgres)
    with pytest.raises(Unanswered):
        session.change("INSERT INTO database_test VALUES (2, 'two')")
    assert session.change("INSERT INTO database_test VALUES (2, 'two')") == 1


def test_a_transaction_is_repeated_as_a_whole(session, postgres):
    runs = []

    def work(cursor):
        runs.append(cursor.execute("INSERT INTO database_test VALUES ($1, 'x')", (1,)).rowcount)
        if len(runs) == 1:
            end_connections(postgres)
        return cursor.execute("SELECT count(*) FROM database_test").fetchone()[0]

    assert session.run(work) == 1
    assert runs == [1, 1]


def test_an_error_inside_a_transaction_undoes_it_at_once(session):
    def work(cursor):
        cursor.execute("INSERT INTO database_test VALUES (1, 'x')")
        cursor.execute("INSERT INTO database_test VALUES (1, 'y')")

    with pytest.raises(Failed, match="duplicate key") as failed:
        session.run(work)
    assert not failed.value.trouble.is_passing
    with pytest.raises(ZeroDivisionError):
        session.run(lambda cursor: cursor.execute("INSERT INTO database_test VALUES (3, 'z')") and 1 / 0)
    assert session.query("SELECT * FROM database_test") == []


def test_a_lock_is_waited_for_by_a_transaction_only(session, postgres):
    impatient = opened(
        postgres.url, patience=0.3, set_up=lambda connection: connection.execute("SET lock_timeout = '50ms'")
    )
    with contextlib.closing(impatient), psycopg.connect(postgres.url) as other:
        other.execute("LOCK TABLE database_test")
        with pytest.raises(Failed, match="lock timeout") as failed:
            impatient.run(lambda cursor: cursor.execute("SELECT * FROM database_test"))
        assert failed.value.trouble.is_passing
        with pytest.raises(Failed, match="lock timeout") as failed:
            impatient.change("DELETE FROM database_test")
        assert not failed.value.trouble.is_passing


def test_a_server_that_is_away_is_trouble_when_patience_ends():
    session = opened("postgresql://me:hunter2@127.0.0.1:1/d", patience=0.2)
    for attempt in (lambda: session.query("SELECT 1"), lambda: session.change("SELECT 1"), lambda: session.run(repr)):
        with pytest.raises(Failed, match="refused") as failed:
            attempt()
        assert failed.value.trouble.is_passing
        assert "hunter2" not in str(failed.value)


def test_a_refusal_that_stays_is_not_waited_for(postgres):
    session = opened(postgres.url, patience=600, dbname="nowhere")
    for attempt in (lambda: session.query("SELECT 1"), lambda: session.run(repr)):
        with pytest.raises(Failed, match='"nowhere" does not exist') as failed:
            attempt()
        assert not failed.value.trouble.is_passing


def test_a_password_with_special_characters_logs_in(postgres):
    password = "p@s:s/w#o?r%d& '\\"
    written = "p%40s%3As%2Fw%23o%3Fr%25d%26%20%27%5C"
    address = address_of(postgres.url.replace("postgres@", f"postgres:{written}@"))
    session = opened(address.driver)
    assert session.query("SELECT 1") == [(1,)]
    assert session._connection.info.password == address.password == password
    session.close()


def test_a_closed_session_opens_again(session, postgres):
    session.close()
    session.close()
    assert session.query("SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    "text",
    [
        "connection refused",
        "the database system is starting up",
        "server closed the connection unexpectedly",
        "SSL SYSCALL error: EOF detected",
        "SSL connection has been closed unexpectedly",
        "received invalid response to SSL negotiation: E",
        'could not translate host name "db" to address',
    ],
)
def test_errors_that_pass(text):
    assert is_passing(psycopg.OperationalError(text))
    assert is_passing(psycopg.InterfaceError(text))


@pytest.mark.parametrize(
    "text",
    [
        'password authentication failed for user "me"',
        'Peer authentication failed for user "me"',
        "fe_sendauth: no password supplied",
        'database "d" does not exist',
        'no pg_hba.conf entry for host "h"',
        'pg_hba.conf rejects connection for host "h"',
        "server does not support SSL, but SSL was required",
        "SSL error: certificate verify failed",
        'invalid sslmode value: "x"',
        'invalid port number: "99999"',
        'invalid integer value "x" for connection option "port"',
    ],
)
def test_errors_that_stay(text):
    assert not is_passing(psycopg.OperationalError(text))


@pytest.mark.parametrize("kind", [psycopg.ProgrammingError, psycopg.IntegrityError, psycopg.DataError, ValueError])
def test_errors_of_statements_stay(kind):
    assert not is_passing(kind("whatever"))
