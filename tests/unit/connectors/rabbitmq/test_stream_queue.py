"""A stream queue of a real RabbitMQ as a source: the contract, and the stories of offsets, loss and servers that go away."""

import contextlib
import datetime as dt
import time

import pytest
from tests.unit.connectors.rabbitmq.queues import RabbitUnderTest, encoded, numbered

from millstream.connectors.messaging.loop import close_loop
from millstream.contract.source import BadRecord
from millstream.errors import InvalidStep, StepFailed
from millstream.model.schema import schema_of
from millstream.testing.source_contract import SourceContract, walked
from millstream.testing.source_under_test import OpenedSource, logged

pytestmark = pytest.mark.brokers


@pytest.fixture(autouse=True, scope="module")
def nothing_open():
    yield
    close_loop()


def stream_queue(server, folder, **options):
    return RabbitUnderTest(server, folder, kind="stream", **{"start": "earliest", **options})


class TestStreamQueue(SourceContract):
    @pytest.fixture
    def source(self, rabbitmq_server, tmp_path):
        return stream_queue(rabbitmq_server, tmp_path)


class TestBoundedStreamQueue(SourceContract):
    @pytest.fixture
    def source(self, rabbitmq_server, tmp_path):
        return stream_queue(rabbitmq_server, tmp_path, until="latest")


class TestStreamQueueAway:
    test_what_is_away = SourceContract.test_what_is_away_is_an_external_failure_in_each_call
    open_source = SourceContract.open_source

    @pytest.fixture
    def source(self, rabbitmq_server, tmp_path, monkeypatch):
        monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 0.5)
        source = stream_queue(rabbitmq_server, tmp_path, url=rabbitmq_server.proxied_url)

        @contextlib.contextmanager
        def away():
            with rabbitmq_server.proxy.away():
                yield

        source.away = away
        return source

    def test_a_connection_that_breaks_is_opened_again(self, source, open_source, monkeypatch):
        monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 30.0)
        opened = open_source()
        path, before = walked(opened, opened.initial(), 10, until=10)
        source.server.proxy.cut()
        source.add(5)
        _, rest = walked(opened, path[-1], 10, until=28 - len(before))
        assert [*before, *rest] == source.rows()


@pytest.fixture
def source(rabbitmq_server, tmp_path):
    return stream_queue(rabbitmq_server, tmp_path)


@pytest.fixture
def open_source(source):
    opened = []

    def open_one(**options):
        opened.append(OpenedSource(source, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def test_latest_is_decided_once(source, open_source):
    source.with_options(start="latest")
    opened = open_source()
    start = opened.initial()
    source.add(4)
    assert open_source(token=2).initial() == start
    assert walked(open_source(token=2), start, 10, until=4)[1] == numbered(23, 4)


def test_an_offset_and_a_time_as_beginning(source, open_source, tmp_path):
    source.with_options(start=3, until=9)
    opened = open_source()
    assert walked(opened, opened.initial(), 10)[1] == numbered(3, 6)
    source.with_options(start=dt.datetime.now(dt.UTC) - dt.timedelta(hours=1), until="latest")
    (tmp_path / "other").mkdir()
    other = open_source(folder=tmp_path / "other")
    assert walked(other, other.initial(), 100)[1] == source.rows()


def test_a_long_range_is_shared_by_tasks(source, open_source):
    source.add(5_000)
    opened = open_source()
    path, rows = walked(opened, opened.initial(), 100_000, until=5_023)
    assert rows == source.rows()
    assert len(opened.splits(path[0], path[-1])) == 2


def test_metadata_columns_and_bad_messages(rabbitmq_server, tmp_path):
    source = stream_queue(rabbitmq_server, tmp_path, count=0)
    sent = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    rabbitmq_server.send(source.queue, [b'{"n": 1}', b"{"], headers={"trace": "t"}, message_id="m1", timestamp=sent)
    source.schema = schema_of(
        "n long, offset long, key string, id string, at timestamp, headers array<struct<key: string, value: binary>>"
    )
    kinds = {"offset": "offset", "key": "routing_key", "id": "message_id", "at": "timestamp", "headers": "headers"}
    source.with_options(metadata=kinds)
    opened = OpenedSource(source)
    try:
        start = opened.initial()
        while (end := opened.advance(start, 10).position)["at"] < 2:
            pass
        reader = opened._reader()
        rows, bad = (part for split in opened.splits(start, end) for part in reader.read(logged(split.body)))
        reader.close()
    finally:
        opened.close()
    assert rows.to_pylist() == [
        {"n": 1, "offset": 0, "key": source.queue, "id": "m1", "at": sent, "headers": [{"key": "trace", "value": b"t"}]}
    ]
    assert isinstance(bad, BadRecord)
    assert (bad.raw, bad.origin) == (b"{", f"{source.queue}@1")


def asked_until_refused(opened, start):
    """Ask for what is behind `start` until that is refused; it stands still meanwhile."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        assert opened.advance(start, 0).position == start
        time.sleep(0.1)


SMALL = {"x-max-length-bytes": 20_000, "x-stream-max-segment-size-bytes": 5_000}


def test_messages_that_were_deleted_fail_the_job_or_are_skipped(rabbitmq_server, tmp_path):
    source = stream_queue(rabbitmq_server, tmp_path, count=10, arguments=SMALL)
    opened = OpenedSource(source)
    start = opened.initial()
    for _ in range(10):
        rabbitmq_server.send(source.queue, encoded([{"n": 1, "user": "x" * 200}]) * 100)
    # The server deletes when it comes to it.
    with pytest.raises(StepFailed, match=r"RABBIT-013.*deleted"):
        asked_until_refused(opened, start)
    opened.close()
    source.with_options(on_data_loss="skip")
    later = OpenedSource(source, token=2)
    advance = later.advance(start, 5)
    assert advance.dropped["data_loss"] > 100
    assert [row["n"] for row in later.read(start, advance.position)] == [1] * (
        advance.position["at"] - advance.position["skip"]
    )
    later.close()


def test_a_queue_that_was_made_anew_is_another_one(source, open_source, rabbitmq_server):
    opened = open_source()
    path, _ = walked(opened, opened.initial(), 100, until=23)
    rabbitmq_server.delete(source.queue)
    rabbitmq_server.make(source.queue, stream=True)
    rabbitmq_server.send(source.queue, encoded(numbered(100, 5)))
    with pytest.raises(StepFailed, match=r"RABBIT-013.*not the one"):
        asked_until_refused(open_source(token=2), path[-1])


def test_an_end_that_comes_in_pieces_is_that_of_the_same_queue(source, open_source, monkeypatch):
    """The first look after a restart may show less than was read."""
    opened = open_source()
    path, _ = walked(opened, opened.initial(), 100, until=23)
    again = open_source(token=2)
    ends = iter([19, 21])
    whole = again.enumerator._tail.end
    monkeypatch.setattr(again.enumerator._tail, "end", lambda: next(ends, None) or whole())
    for _ in range(3):
        assert again.advance(path[-1], 5).position == path[-1]


def test_a_queue_that_is_missing_is_named(source, open_source):
    source.with_options(queue="nothing")
    with pytest.raises(InvalidStep, match=r"RABBIT-004.*'nothing'"):
        open_source().initial()
