"""The `jdbc` sink while PostgreSQL is killed, stalls, or its replies are lost."""

import threading
import time

import pytest
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy
from tests.unit.connectors.sinks.databases import PostgresUnderTest
from tests.unit.connectors.sinks.under_test import SCHEMA, Owner, rows, seen

from millstream.connectors.jdbc import database as waiting
from millstream.connectors.jdbc import postgres as settings
from millstream.connectors.jdbc.fence import check_fence
from millstream.contract.sink import SinkTask
from millstream.database.url import address_of
from millstream.errors import ExternalFailure, Fenced, StepFailed
from millstream.records.codecs import rows_to_batch


@pytest.fixture(scope="module")
def server():
    """A server of its own, because it is killed."""
    started = PostgresServer().start()
    yield started
    started.stop()


@pytest.fixture
def sink(server):
    server.execute("DROP SCHEMA IF EXISTS public CASCADE")
    server.execute("CREATE SCHEMA public")
    found = PostgresUnderTest(server.url)
    yield found
    found.close()


@pytest.fixture
def proxy(server):
    started = Proxy(server.port)
    yield started
    started.close()


@pytest.fixture
def behind_proxy(sink, server, proxy):
    """The same sink as `sink`, reached through the proxy."""
    found = PostgresUnderTest(server.url.replace(str(server.port), str(proxy.port)))
    yield found
    found.close()


class Background(threading.Thread):
    """Runs a call beside the test and gives its result, or its error, at the end."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self._call = call
        self._error = None
        self.start()

    def run(self):
        try:
            self._call()
        except BaseException as problem:
            self._error = problem

    def result(self, seconds=60):
        self.join(seconds)
        assert not self.is_alive(), "still running"
        if self._error is not None:
            raise self._error


def writer_of(sink, owner):
    who = owner.context
    task = SinkTask(job=who.job, lineage=who.lineage, step=who.step, epoch=0, task="0-0", attempt="a", token=1)
    return sink.writer(task, SCHEMA)


def test_staged_rows_survive_a_killed_server(sink, server):
    owner = Owner(sink)
    transaction = owner.prepare(0, rows(0), rows(10))
    server.restart()
    owner.publish(0, transaction)
    assert seen(sink) == rows(0, 20)


def test_published_rows_survive_a_killed_server(sink, server):
    owner = Owner(sink)
    transaction = owner.run(0, rows(0))
    server.restart()
    owner.publish(0, transaction)
    owner.run(1, rows(10))
    assert seen(sink) == rows(0, 20)


def test_publish_waits_for_a_server_that_comes_back(sink, server):
    owner = Owner(sink)
    transaction = owner.prepare(0, rows(0))
    server.kill()
    publishing = Background(lambda: owner.publish(0, transaction))
    server.launch()
    publishing.result()
    assert seen(sink) == rows(0)


def test_a_writer_goes_on_after_a_restart(sink, server):
    sink.options["batch_rows"] = 5
    owner = Owner(sink)
    writer = writer_of(sink, owner)
    writer.write(rows_to_batch(rows(0, 5), SCHEMA))
    server.restart()
    writer.write(rows_to_batch(rows(5, 5), SCHEMA))
    owner.publish(0, owner.committer.prepare(0, [writer.finish()]))
    assert seen(sink) == rows(0)


def test_a_server_that_stays_away_is_an_external_failure(sink, server, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 0.3)
    owner = Owner(sink)
    transaction = owner.prepare(0, rows(0))
    server.kill()
    try:
        with pytest.raises(ExternalFailure) as failed:
            owner.publish(0, transaction)
    finally:
        server.start()
    assert (failed.value.code, failed.value.retry, failed.value.step) == ("JDBC-002", "backoff", "out")
    owner.publish(0, transaction)
    assert seen(sink) == rows(0)


def test_an_error_that_stays_is_not_waited_for(sink, server):
    started = time.monotonic()
    with pytest.raises(StepFailed) as failed:
        Owner(PostgresUnderTest(server.url.replace("/postgres", "/nowhere")))
    assert failed.value.code == "JDBC-013"
    assert "nowhere" in str(failed.value)
    assert time.monotonic() - started < waiting.PATIENCE / 2


def test_a_password_is_never_shown(sink, server, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 0.1)
    url = "postgresql://postgres:s3cret-word@127.0.0.1:1/nowhere?connect_timeout=1"
    with pytest.raises(ExternalFailure) as failed:
        Owner(PostgresUnderTest(url))
    shown = (
        str(failed.value) + repr(failed.value.__cause__) + repr(address_of(url)) + repr(PostgresUnderTest(url).options)
    )
    assert "s3cret" not in shown


def test_an_owner_that_stalls_inside_a_transaction_is_cut_off(sink, server, monkeypatch):
    monkeypatch.setattr(settings, "IDLE_TIMEOUT", "700ms")
    stalled = Owner(sink, token=1)
    transaction = stalled.prepare(0, rows(0))
    holds_fence, wake = threading.Event(), threading.Event()

    def stall(cursor):
        check_fence(cursor, stalled.committer._layout, stalled.context)
        holds_fence.set()
        wake.wait(60)
        stalled.committer._publish(cursor, 0, transaction)

    stuck = Background(lambda: stalled.committer._database.run(stall))
    assert holds_fence.wait(30)
    fresh = Owner(sink, token=2)
    fresh.publish(0, transaction)
    wake.set()
    with pytest.raises(Fenced):
        stuck.result()
    assert seen(sink) == rows(0)


def test_sessions_say_who_they_are_and_do_not_wait_for_ever(sink, server):
    owner = Owner(sink)
    query = "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'millstream %'"
    assert server.execute(query) == [("millstream job/out",)]
    names = ("idle_in_transaction_session_timeout", "lock_timeout")

    def show(cursor):
        return [cursor.execute(f"SHOW {name}").fetchone()[0] for name in names]

    assert owner.committer._database.run(show) == ["10s", "5s"]


def test_a_lost_reply_to_commit_is_resolved_by_the_marker(sink, behind_proxy, proxy):
    owner = Owner(behind_proxy)
    transaction = owner.prepare(0, rows(0))
    proxy.lose_reply_to(b"COMMIT")
    owner.publish(0, transaction)
    assert proxy.lost.is_set()
    assert seen(sink) == rows(0)
    assert sink.execute("SELECT epoch, rows FROM millstream_marker") == [(0, 10)]
    assert sink.staged() == 0


def test_a_lost_reply_to_a_writer_does_not_double_its_rows(sink, behind_proxy, proxy):
    behind_proxy.options["batch_rows"] = 5
    owner = Owner(behind_proxy)
    writer = writer_of(behind_proxy, owner)
    for start in (0, 5):
        proxy.lose_reply_to(b"COMMIT")
        writer.write(rows_to_batch(rows(start, 5), SCHEMA))
        assert proxy.lost.is_set()
    owner.publish(0, owner.committer.prepare(0, [writer.finish()]))
    assert seen(sink) == rows(0)


def test_a_connection_cut_in_the_middle_of_publishing(sink, behind_proxy, proxy):
    owner = Owner(behind_proxy)
    transaction = owner.prepare(0, rows(0))
    proxy.lose_reply_to(b"INSERT INTO")
    owner.publish(0, transaction)
    assert proxy.lost.is_set()
    assert seen(sink) == rows(0)


def test_a_commit_that_arrives_late_changes_nothing(sink, behind_proxy, proxy, monkeypatch):
    monkeypatch.setattr(settings, "IDLE_TIMEOUT", "700ms")
    owner = Owner(behind_proxy)
    transaction = owner.prepare(0, rows(0))
    proxy.hold(b"COMMIT")
    # The open transaction holds the fence until the server ends it, so the second try waits for that.
    owner.publish(0, transaction)
    assert proxy.lost.is_set()
    proxy.release()
    assert seen(sink) == rows(0)
    owner.run(1, rows(10))
    assert seen(sink) == rows(0, 20)


def test_a_slow_network_only_takes_longer(sink, behind_proxy, proxy):
    proxy.delay = 0.02
    Owner(behind_proxy).run(0, rows(0), rows(10))
    assert seen(sink) == rows(0, 20)
