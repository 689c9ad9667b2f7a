"""A plain queue of a real RabbitMQ as a source: nothing is lost, and what is not acknowledged comes again."""

import contextlib

import pytest
from tests.unit.connectors.rabbitmq.queues import RabbitUnderTest, encoded, numbered

import millstream as ms
from millstream.connectors.messaging.loop import close_loop
from millstream.errors import InvalidPlan, InvalidStep
from millstream.inspect.connectors.trying import try_step
from millstream.testing.source_contract import SourceContract, read_all, walked
from millstream.testing.source_under_test import OpenedSource, as_multiset

pytestmark = pytest.mark.brokers


@pytest.fixture(autouse=True, scope="module")
def nothing_open():
    yield
    close_loop()


class PlainQueueStories(SourceContract):
    """The stories of the contract. A queue gives a message to one owner, so an owner that follows another finds it dead."""

    @pytest.fixture
    def open_source(self, source):
        opened = []

        def open_one(**options):
            for earlier in opened:
                earlier.close()  # its connection is gone; what it left in the log can still be read
            opened.append(OpenedSource(source, **options))
            return opened[-1]

        yield open_one
        for each in opened:
            each.close()


class TestPlainQueue(PlainQueueStories):
    @pytest.fixture
    def source(self, rabbitmq_server, tmp_path, monkeypatch):
        monkeypatch.setattr("millstream.connectors.rabbitmq.queue_source._ENTRY_ROWS", 3)
        return RabbitUnderTest(rabbitmq_server, tmp_path)

    def test_a_restart_behind_each_epoch_reads_the_rest(self, source, open_source):
        """Nothing was acknowledged: the successor is sent all of it, at least the rest."""
        path, rows = read_all(source, open_source(), 5)
        for place in range(len(path) - 1):
            _, again = walked(open_source(token=2 + place), path[place], 5, until=len(rows))
            assert as_multiset(again) == as_multiset(rows)

    def test_old_and_new_owner_at_once(self, source, open_source):
        """The new one gets what the old one was not given, and the rest when the old one is gone."""
        old = OpenedSource(source, token=1)
        path, _ = walked(old, old.initial(), 5, until=23)
        old.enumerator.acknowledge(path[2])
        new = open_source(token=2)
        assert new.advance(path[2], 5).position == path[2]
        old.close()
        _, rest = walked(new, path[2], 5, until=23 - len(old.read(path[0], path[2])))
        assert as_multiset([*old.read(path[0], path[2]), *rest]) == as_multiset(source.rows())

    def test_what_is_acknowledged_is_gone_and_nothing_else(self, source, open_source):
        opened = open_source()
        path, _ = read_all(source, opened, 5)
        opened.enumerator.acknowledge(path[2])
        opened.close()
        taken = len(opened.read(path[0], path[2]))
        assert source.server.waiting(source.queue) == 23 - taken

    def test_a_late_acknowledgement_of_another_session_does_nothing(self, source, open_source):
        first = open_source()
        path, _ = read_all(source, first, 5)
        later = open_source(token=2)
        walked(later, path[0], 5, until=23)
        later.enumerator.acknowledge(path[-1])
        later.close()
        assert source.server.waiting(source.queue) == 23


class TestPlainQueueAway:
    open_source = PlainQueueStories.open_source

    @pytest.fixture
    def source(self, rabbitmq_server, tmp_path, monkeypatch):
        monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 0.5)
        source = RabbitUnderTest(rabbitmq_server, tmp_path, url=rabbitmq_server.proxied_url)
        source.away = rabbitmq_server.proxy.away
        return source

    def test_what_is_away_is_an_external_failure(self, source, open_source):
        with source.away(), pytest.raises(ms.MillstreamError, match="RABBIT-002"):
            opened = open_source()
            walked(opened, opened.initial(), 5, until=1)

    def test_a_connection_that_breaks_loses_nothing(self, source, open_source, monkeypatch):
        monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 30.0)
        opened = open_source()
        path, before = walked(opened, opened.initial(), 10, until=10)
        source.server.proxy.cut()
        with contextlib.suppress(ms.MillstreamError):
            opened.enumerator.acknowledge(path[-1])
        source.add(5)
        _, rest = walked(opened, path[-1], 10, until=28)
        assert set(as_multiset([*before, *rest])) == set(as_multiset(source.rows()))


def test_a_bad_message_is_a_bad_record(rabbitmq_server, tmp_path):
    queue = rabbitmq_server.queue()
    rabbitmq_server.send(queue, [b"{", *encoded(numbered(0, 2))])
    job = ms.Job("job", guarantee="at_least_once")
    rows = job.source("in", ms.rabbitmq(queue, url=rabbitmq_server.url), schema="n long", on_error="skip")
    rows.sink("out", ms.rabbitmq(f"{queue}-out", url=rabbitmq_server.url))
    shown = try_step(job, "in", limit=3, seconds=5)
    assert (sorted(row["n"] for row in shown.rows), len(shown.bad)) == ([0, 1], 1)
    assert "3 messages that wait" in shown.found[0]
    assert "would be created" in try_step(job, "out", limit=1, seconds=1).found[0]
    assert rabbitmq_server.waiting(queue) == 3


def test_only_a_stream_queue_can_be_read_exactly_once():
    def job(**options):
        made = ms.Job("job")
        source = ms.rabbitmq("q", url="amqp://localhost/", **options)
        made.source("in", source, schema="n long").sink("out", ms.files("out"))
        return made

    with pytest.raises(InvalidPlan, match=r"exactly_once.*rabbitmq.*AT_LEAST_ONCE"):
        job().compile()
    job(kind="stream", start="earliest").compile()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "http://h/"}, r"CONN-005.*amqp"),
        ({"start": "earliest"}, r"RABBIT-010.*stream queues"),
        ({"kind": "stream"}, r"RABBIT-010.*beginning"),
        ({"metadata": {"n": "offset"}}, r"RABBIT-010.*no offset"),
        ({"prefetch": 0}, r"CONN-005.*65535"),
        ({"client": {"colour": 1}}, r"CONN-005.*heartbeat"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(InvalidStep, match=words):
        ms.Job("job").source("in", ms.rabbitmq(**{"queue": "q", "url": "amqp://h/", **options}), schema="n long")


def test_a_wrong_password_is_refused_at_once_and_not_shown(rabbitmq_server, tmp_path, monkeypatch):
    monkeypatch.setenv("WRONG_PASSWORD", "hunter2")
    url = rabbitmq_server.url.replace("RABBITMQ_TEST_PASSWORD", "WRONG_PASSWORD")
    source = RabbitUnderTest(rabbitmq_server, tmp_path, url=url)
    opened = OpenedSource(source)
    with pytest.raises(ms.MillstreamError, match="RABBIT-005") as refused:
        walked(opened, opened.initial(), 5, until=1)
    assert "hunter2" not in str(refused.value)
    opened.close()
