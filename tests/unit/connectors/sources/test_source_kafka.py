"""A Kafka source against a real broker: the contract, and the stories of offsets, transactions, loss and discovery."""

import contextlib
import dataclasses
import datetime as dt
import itertools
import json
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic
from tests.servers.kafka import KafkaServer
from tests.unit.connectors.sources.source_contract import SourceContract, walked
from tests.unit.connectors.sources.source_under_test import Opened, SourceUnderTest, as_multiset, logged

import millstream as ms
from millstream.connectors.kafka import fetching
from millstream.connectors.kafka.spec import kafka as kafka_spec
from millstream.contract.source import BadRecord, LostRows
from millstream.errors import ExternalFailure, StepFailed
from millstream.model.schema import schema_of

pytestmark = pytest.mark.kafka
SCHEMA = schema_of("n long, user string")


@pytest.fixture(autouse=True)
def nothing_parked():
    yield
    fetching.close_parked()


def encoded(rows):
    return [json.dumps(row).encode() for row in rows]


def numbered(first, count):
    return [{"n": number, "user": f"u{number % 3}"} for number in range(first, first + count)]


class KafkaUnderTest(SourceUnderTest):
    """A topic of three partitions; `options` are those of the source."""

    schema = SCHEMA

    def __init__(self, kafka, folder, *, partitions=3, count=23, **options):
        self.kafka, self.folder = kafka, folder
        self.topic = kafka.topic(partitions)
        self.is_bounded = "until" in options
        self._rows = []
        self.add(count)
        self.spec = kafka_spec(self.topic, servers=kafka.servers, **{"start": "earliest", **options})

    def rows(self):
        return list(self._rows)

    def add(self, count):
        rows = numbered(len(self._rows), count)
        self.kafka.send(self.topic, encoded(rows))
        self._rows += rows

    def with_options(self, **options):
        self.spec = dataclasses.replace(self.spec, options={**self.spec.options, **options})
        return self


class TestKafka(SourceContract):
    @pytest.fixture
    def source(self, kafka, tmp_path):
        return KafkaUnderTest(kafka, tmp_path)


class TestBoundedKafka(SourceContract):
    @pytest.fixture
    def source(self, kafka, tmp_path):
        return KafkaUnderTest(kafka, tmp_path, until="latest")


class TestKafkaWithTransactions(SourceContract):
    """Committed rows with aborted ones and control records between them: offsets have gaps."""

    @pytest.fixture
    def source(self, kafka, tmp_path):
        source = KafkaUnderTest(kafka, tmp_path, count=0)
        producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": source.topic})
        producer.init_transactions(30)
        for first in range(0, 24, 4):
            producer.begin_transaction()
            for row, value in zip(numbered(first, 4), encoded(numbered(first, 4)), strict=True):
                producer.produce(source.topic, value, partition=row["n"] % 3)
            if first % 8:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
                source._rows += numbered(first, 4)
        return source


@pytest.fixture(scope="module")
def own_kafka():
    server = KafkaServer().start()
    yield server
    server.stop()


class TestKafkaAway:
    """A broker of its own, which can be killed."""

    test_what_is_away = SourceContract.test_what_is_away_is_an_external_failure_in_each_call

    @pytest.fixture
    def source(self, own_kafka, tmp_path, monkeypatch):
        monkeypatch.setattr("millstream.connectors.kafka.fetching.PATIENCE", 1.0)
        monkeypatch.setattr("millstream.connectors.kafka.source.PATIENCE", 1.0)
        source = KafkaUnderTest(own_kafka, tmp_path)

        @contextlib.contextmanager
        def away():
            fetching.close_parked()
            own_kafka.kill()
            yield
            own_kafka.start()
            own_kafka.await_leaders(source.topic, 3)

        source.away = away
        return source

    def test_a_broker_that_was_killed_and_came_back_is_read_on(self, source, open_source, monkeypatch):
        monkeypatch.setattr("millstream.connectors.kafka.source.PATIENCE", 30.0)
        opened = open_source()
        path, before = walked(opened, opened.initial(), 10, until=10)
        source.kafka.restart()
        source.kafka.await_leaders(source.topic, 3)
        source.add(5)
        _, rest = walked(opened, path[-1], 10, until=28 - len(before))
        assert as_multiset([*before, *rest]) == as_multiset(source.rows())

    def test_an_answer_that_fails_once_is_asked_for_again(self, source, open_source, monkeypatch):
        # On a busy machine the broker answers some seconds after it was woken up.
        monkeypatch.setattr("millstream.connectors.kafka.source.PATIENCE", 30.0)
        opened = open_source()
        start = opened.initial()
        source.kafka.pause()
        try:
            advance = opened.advance(start, 10)
        finally:
            source.kafka.resume()
        assert (advance.position, advance.drained) == (start, ())
        assert advance.not_before > time.time() * 1000
        assert "away" in advance.blocked[f"{source.topic}/0"]
        _, rows = walked(opened, start, 10, until=23)
        assert as_multiset(rows) == as_multiset(source.rows())


# Beginnings and ends


def opened_rows(source, start_from=None, **options):
    source.with_options(**options)
    opened = Opened(source)
    _, rows = walked(opened, opened.initial(), 100, until=len(source.rows()) if start_from is None else start_from)
    opened.close()
    return rows


def test_latest_is_what_was_latest_when_it_was_first_asked(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, start="latest")
    first = Opened(source)
    start = first.initial()
    first.close()  # killed before its first epoch
    source.add(7)
    later = Opened(source, token=2)
    assert later.initial() == start
    _, rows = walked(later, later.initial(), 100, until=7)
    assert as_multiset(rows) == as_multiset(numbered(23, 7))
    later.close()


def test_a_time_and_offsets_are_beginnings(kafka, tmp_path):
    topic = kafka.topic(1)
    for number in range(6):
        kafka.send(topic, encoded(numbered(number, 1)), timestamp=1_000_000 + number * 1000)
    source = SourceUnderTest()
    source.schema, source.folder = SCHEMA, tmp_path
    for name, (start, expected) in {
        "time": (dt.datetime.fromtimestamp(1003, dt.UTC).isoformat(), [3, 4, 5]),
        "between": (dt.datetime.fromtimestamp(1003.5, dt.UTC), [4, 5]),
        "offsets": ({topic: {"0": 2}}, [2, 3, 4, 5]),
        "behind": (dt.datetime.fromtimestamp(2000, dt.UTC), []),
    }.items():
        (tmp_path / name).mkdir()
        source.spec = kafka_spec(topic, servers=kafka.servers, start=start, until="latest")
        opened = Opened(source, folder=tmp_path / name)
        _, rows = walked(opened, opened.initial(), 100)
        assert [row["n"] for row in rows] == expected, name
        opened.close()


def test_an_end_is_frozen_when_the_source_starts(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, until="latest")
    opened = Opened(source)
    start = opened.initial()
    source.add(10)
    _, rows = walked(opened, start, 5)
    assert as_multiset(rows) == as_multiset(numbered(0, 23))
    opened.close()


def test_a_further_run_ends_where_the_topic_ends_by_then(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, until="latest", partitions=1)
    first = Opened(source)
    path, _ = walked(first, first.initial(), 50)
    first.close()
    source.add(4)
    kafka.admin.create_partitions([NewPartitions(source.topic, 2)])[source.topic].result(30)
    kafka.await_leaders(source.topic, 2)
    second = Opened(source, token=2, lineage="L2")
    start = second.next_run(path[-1])
    kafka.send(source.topic, encoded(numbered(100, 1)), partition=1)
    assert [row["n"] for row in walked(second, start, 50)[1]] == [23, 24, 25, 26]
    assert second.initial() != first.initial(), "a run that carries nothing ends there too"
    second.close()


def test_an_end_by_time_and_offsets(kafka, tmp_path):
    topic = kafka.topic(1)
    for number in range(6):
        kafka.send(topic, encoded(numbered(number, 1)), timestamp=1_000_000 + number * 1000)
    source = SourceUnderTest()
    source.schema, source.folder = SCHEMA, tmp_path
    for name, until in {"time": dt.datetime.fromtimestamp(1004, dt.UTC), "offsets": {topic: {"0": 4}}}.items():
        (tmp_path / name).mkdir()
        source.spec = kafka_spec(topic, servers=kafka.servers, start="earliest", until=until)
        opened = Opened(source, folder=tmp_path / name)
        _, rows = walked(opened, opened.initial(), 100)
        assert [row["n"] for row in rows] == [0, 1, 2, 3], name
        opened.close()


def test_a_group_is_told_what_is_published_and_is_a_beginning(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, group="monitor-of-orders")
    opened = Opened(source)
    path, _ = walked(opened, opened.initial(), 10, until=10)
    opened.enumerator.acknowledge(path[1])
    opened.close()
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": "monitor-of-orders"})
    (told,) = consumer.committed([TopicPartition(source.topic, 0)], timeout=10)
    consumer.close()
    assert told.offset == 10
    (tmp_path / "later").mkdir()
    later = Opened(source.with_options(start="group"), folder=tmp_path / "later")
    _, rows = walked(later, later.initial(), 100, until=13)
    assert [row["n"] for row in rows] == list(range(10, 23))
    later.close()


def test_a_topic_that_is_missing_is_named(kafka, tmp_path, monkeypatch):
    monkeypatch.setattr("millstream.connectors.kafka.source.PATIENCE", 0.1)
    source = SourceUnderTest()
    source.schema, source.folder = SCHEMA, tmp_path
    source.spec = kafka_spec(["no-such-topic"], servers=kafka.servers, start="earliest")
    opened = Opened(source)
    with pytest.raises(ExternalFailure) as refused:
        opened.initial()
    assert (refused.value.code, refused.value.found) == ("KAFKA-011", "no-such-topic")
    opened.close()


# What changes outside


def test_a_partition_that_is_added_is_read_from_its_first_record(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, start="latest", discover=0.001)
    opened = Opened(source)
    start = opened.initial()
    kafka.admin.create_partitions([NewPartitions(source.topic, 2)])[source.topic].result(30)
    kafka.await_leaders(source.topic, 2)
    kafka.send(source.topic, encoded(numbered(100, 5)), partition=1)
    path, rows = walked(opened, start, 100, until=5)
    assert as_multiset(rows) == as_multiset(numbered(100, 5))
    assert "1" not in path[0]["topics"][source.topic]["at"]
    later = Opened(source, token=2)
    assert [row for pair in itertools.pairwise(path) for row in later.read(*pair)] == rows
    opened.close()
    later.close()


def test_topics_that_fit_a_pattern_come_in_later(kafka, tmp_path):
    first = kafka.topic(1, name="events-a")
    suffix = first.removeprefix("events-a")
    source = SourceUnderTest()
    source.schema, source.folder = SCHEMA, tmp_path
    source.spec = kafka_spec(pattern=rf"events-.{suffix}", servers=kafka.servers, start="latest", discover=0.001)
    opened = Opened(source)
    start = opened.initial()
    assert list(start["topics"]) == [first]
    second = f"events-b{suffix}"
    from confluent_kafka.admin import NewTopic

    kafka.admin.create_topics([NewTopic(second, num_partitions=2, replication_factor=1)])[second].result(30)
    kafka.await_leaders(second, 2)
    kafka.send(second, encoded(numbered(0, 4)))
    _, rows = walked(opened, start, 100, until=4)
    assert as_multiset(rows) == as_multiset(numbered(0, 4))
    opened.close()


def deleted_before(kafka, topic, offset):
    records = [TopicPartition(topic, 0, offset)]
    for future in kafka.admin.delete_records(records).values():
        future.result(30)


def test_records_that_are_gone_fail_the_source(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1)
    opened = Opened(source)
    path, _ = walked(opened, opened.initial(), 5, until=5)
    deleted_before(kafka, source.topic, 9)
    with pytest.raises(StepFailed) as lost:
        opened.advance(path[-1], 10)
    assert (lost.value.code, lost.value.found) == ("KAFKA-013", "offsets 5 to 8")
    opened.close()


def test_records_that_are_gone_are_counted_where_that_is_accepted(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, on_data_loss="skip")
    opened = Opened(source)
    path, _ = walked(opened, opened.initial(), 5, until=5)
    deleted_before(kafka, source.topic, 9)
    asked = opened.advance(path[-1], 0)
    assert (asked.position, asked.dropped) == (path[-1], {}), "asking loses nothing"
    advance = opened.advance(path[-1], 10)
    assert advance.dropped == {"data_loss": 4}
    assert [row["n"] for row in opened.read(path[-1], advance.position)] == list(range(9, 19))
    after = opened.advance(advance.position, 10)
    assert after.dropped == {}
    assert [row["n"] for row in opened.read(advance.position, after.position)] == list(range(19, 23))
    opened.close()


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_records_that_go_between_plan_and_reading(kafka, tmp_path, policy):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, on_data_loss=policy)
    opened = Opened(source)
    start = opened.initial()
    end = opened.advance(start, 20).position
    deleted_before(kafka, source.topic, 6)
    reader = opened._reader()
    (split,) = opened.splits(start, end)
    if policy == "fail":
        with pytest.raises(StepFailed) as lost:
            list(reader.read(logged(split.body)))
        assert (lost.value.code, lost.value.found) == ("KAFKA-013", "offsets 0 to 5")
    else:
        parts = list(reader.read(logged(split.body)))
        assert parts[0] == LostRows(6, "data_loss")
        assert [n for part in parts[1:] for n in part.column("n").to_pylist()] == list(range(6, 20))
    opened.close()


def made_anew(kafka, topic, rows):
    """Another topic of the same name takes the place of one."""
    kafka.admin.delete_topics([topic])[topic].result(30)
    until = time.monotonic() + 30
    while True:
        try:
            kafka.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
            break
        except Exception:
            assert time.monotonic() < until
            time.sleep(0.1)
    kafka.await_leaders(topic, 1)
    kafka.send(topic, encoded(rows))


def test_another_topic_of_the_same_name(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1)
    opened = Opened(source)
    path, _ = walked(opened, opened.initial(), 5, until=5)
    made_anew(kafka, source.topic, numbered(500, 30))
    later = Opened(source, token=2)
    with pytest.raises(StepFailed) as lost:
        later.advance(path[-1], 10)
    assert lost.value.code == "KAFKA-013"
    later.close()
    skipping = Opened(source.with_options(on_data_loss="skip"), token=3)
    _, rows = walked(skipping, path[-1], 10, until=30)
    assert [row["n"] for row in rows] == list(range(500, 530))
    skipping.close()
    opened.close()


def test_a_shorter_topic_of_the_same_name_is_noticed_at_once(kafka, tmp_path):
    """Waiting for the next look at topics, it could grow beyond the position and be read on from there."""
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, discover="1h")
    opened = Opened(source)
    path, _ = walked(opened, opened.initial(), 5, until=20)
    made_anew(kafka, source.topic, numbered(500, 3))
    with pytest.raises(StepFailed, match="KAFKA-013"):
        opened.advance(path[-1], 10)
    opened.close()


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_plan_is_not_read_from_another_topic_of_its_name(kafka, tmp_path, policy):
    """An epoch that was planned before the job ended is run again after it, and the offsets of its plan are there."""
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, on_data_loss=policy)
    opened = Opened(source)
    start = opened.initial()
    end = opened.advance(start, 20).position
    opened.close()
    made_anew(kafka, source.topic, numbered(500, 30))
    later = Opened(source, token=2)
    if policy == "fail":
        with pytest.raises(StepFailed, match="KAFKA-013"):
            later.splits(start, end)
    else:
        assert list(later.splits(start, end)) == []
        _, rows = walked(later, end, 10, until=30)
        assert [row["n"] for row in rows] == list(range(500, 530))
    later.close()


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_range_behind_the_end_of_its_partition_is_gone(kafka, tmp_path, policy):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, count=3, on_data_loss=policy)
    opened = Opened(source)
    parts = opened._reader().read([source.topic, 0, 5, 10])
    if policy == "fail":
        with pytest.raises(StepFailed) as lost:
            list(itertools.islice(parts, 3))
        assert (lost.value.code, lost.value.found) == ("KAFKA-013", "offsets 5 to 9")
    else:
        assert list(itertools.islice(parts, 3)) == [LostRows(5, "data_loss")]
    opened.close()


def test_a_partition_that_is_shorter_than_what_was_read_of_it(kafka, tmp_path, monkeypatch):
    """As after a leader that lacked records took over: nothing behind the position may be taken for what was there."""
    monkeypatch.setattr("millstream.connectors.kafka.source._SHORT_SECONDS", 0.0)
    source = KafkaUnderTest(kafka, tmp_path, partitions=1)
    opened = Opened(source)
    position = opened.initial()
    position["topics"][source.topic]["at"]["0"] = 40
    with pytest.raises(StepFailed) as lost:
        opened.advance(position, 10)
    assert (lost.value.code, lost.value.found) == ("KAFKA-013", "offset 40, and the end is 23")
    opened.close()
    skipping = Opened(source.with_options(on_data_loss="skip"), token=2)
    moved = skipping.advance(position, 10).position
    assert list(skipping.splits(position, moved)) == []
    source.add(4)
    _, rows = walked(skipping, moved, 10, until=4)
    assert [row["n"] for row in rows] == list(range(23, 27))
    skipping.close()


# Transactions


def test_an_open_transaction_holds_its_partition_and_is_named(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=2, count=0)
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": source.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(source.topic, encoded(numbered(0, 1))[0], partition=0)
    producer.flush(30)
    kafka.send(source.topic, encoded(numbered(1, 2)), partition=0)
    opened = Opened(source)
    start = opened.initial()
    advance = opened.advance(start, 10)
    assert advance.position == start
    assert advance.blocked == {f"{source.topic}/0": "blocked by an open transaction"}
    producer.commit_transaction(30)
    _, rows = walked(opened, start, 10, until=3)
    assert [row["n"] for row in rows] == [0, 1, 2]
    opened.close()


def test_a_range_that_holds_nothing_but_the_end_of_a_transaction(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, count=0)
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": source.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(source.topic, encoded(numbered(0, 1))[0])
    producer.flush(30)
    producer.abort_transaction(30)
    opened = Opened(source)
    start = opened.initial()
    until = time.monotonic() + 10
    while (advance := opened.advance(start, 10)).position == start:
        assert time.monotonic() < until, "the end of the transaction does not show"
    assert advance.position["topics"][source.topic]["at"] == {"0": 2}
    assert opened.read(start, advance.position) == []
    assert opened.advance(advance.position, 10).drained == [f"{source.topic}/0"]
    opened.close()


def test_uncommitted_records_are_read_where_that_is_wanted(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, count=2, isolation="read_uncommitted")
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": source.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(source.topic, encoded(numbered(2, 1))[0])
    producer.flush(30)
    opened = Opened(source)
    _, rows = walked(opened, opened.initial(), 10, until=3)
    assert [row["n"] for row in rows] == [0, 1, 2]
    producer.abort_transaction(30)
    opened.close()


# Rows


def test_keys_headers_and_what_else_a_message_has(kafka, tmp_path):
    topic = kafka.topic(1)
    kafka.send(topic, [b'{"n": 1}'], key=b"k1", headers=[("a", b"x"), ("a", None)], timestamp=1_700_000_000_123)
    kafka.send(topic, [b'{"n": 2}'], timestamp=1_700_000_000_124)
    source = SourceUnderTest()
    source.schema = schema_of(
        "key string, n long, h array<struct<key: string, value: binary>>, o long, p int, t string, at timestamp, raw_key binary"
    )
    source.folder = tmp_path
    source.spec = kafka_spec(
        topic,
        servers=kafka.servers,
        start="earliest",
        until="latest",
        key_fields=["key"],
        metadata={"h": "headers", "o": "offset", "p": "partition", "t": "topic", "at": "timestamp", "raw_key": "key"},
    )
    opened = Opened(source)
    parts = [part for part in opened._reader().read([topic, 0, 0, 1])]
    (row,) = parts[0].to_pylist()
    assert row["h"] == [{"key": "a", "value": b"x"}, {"key": "a", "value": None}]
    assert (row["key"], row["n"], row["o"], row["p"], row["t"], row["raw_key"]) == ("k1", 1, 0, 0, topic, b"k1")
    assert row["at"] == dt.datetime(2023, 11, 14, 22, 13, 20, 123000, dt.UTC)
    (keyless,) = opened._reader().read([topic, 0, 1, 2])
    (row,) = keyless.to_pylist()
    assert (row["key"], row["raw_key"], row["n"], row["h"]) == (None, None, 2, [])
    opened.close()


def test_a_bad_message_is_named_and_its_neighbours_stay(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, count=3)
    kafka.send(source.topic, [b'{"n": "many"}', b"\xff\xfe", *encoded(numbered(3, 2))])
    opened = Opened(source)
    parts = list(opened._reader().read([source.topic, 0, 0, 7]))
    bad = [part for part in parts if isinstance(part, BadRecord)]
    assert [each.origin for each in bad] == [f"{source.topic}/0@3", f"{source.topic}/0@4"]
    assert bad[1].raw == b"\xff\xfe"
    rows = [row for part in parts if not isinstance(part, BadRecord) for row in part.to_pylist()]
    assert [row["n"] for row in rows] == [0, 1, 2, 3, 4]
    opened.close()


def test_a_long_partition_is_shared_by_tasks(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, count=9000)
    source.parallelism = 3
    opened = Opened(source)
    start = opened.initial()
    end = opened.advance(start, 9000).position
    splits = opened.splits(start, end)
    assert [split.rows for split in splits] == [3000, 3000, 3000]
    assert [row["n"] for row in opened.read(start, end)] == list(range(9000))
    opened.close()


def test_a_reader_goes_on_with_what_it_fetched(kafka, tmp_path):
    source = KafkaUnderTest(kafka, tmp_path, partitions=1, count=60)
    opened = Opened(source)
    reader = opened._reader()
    for first in range(0, 60, 20):
        rows = [row for part in reader.read([source.topic, 0, first, first + 20]) for row in part.to_pylist()]
        assert [row["n"] for row in rows] == list(range(first, first + 20))
        assert len(fetching._parked) == 1
    rows = [row for part in reader.read([source.topic, 0, 5, 10]) for row in part.to_pylist()]
    assert [row["n"] for row in rows] == list(range(5, 10)), "and back again"
    opened.close()


def test_a_job_reads_a_topic_and_tells_what_waits(kafka, tmp_path):
    topic = kafka.topic(2)
    kafka.send(topic, encoded(numbered(0, 40)))
    job = ms.Job("kafka-in", rows_per_epoch=10, parallelism=2)
    spec = kafka_spec(topic, servers=kafka.servers, start="earliest", until="latest")
    job.source("in", spec, schema="n long, user string").sink("out", ms.collect("kafka-in"))
    seen = []
    result = job.run(local=True, checkpoint=str(tmp_path / "c"), on_epoch=seen.append)
    assert (result.rows_in, result.rows_out) == (40, 40)
    assert seen[0].lag == sum(seen[0].lags.values()) == 30
    assert set(seen[0].lags) == {f"in/{topic}/0", f"in/{topic}/1"}


@pytest.mark.parametrize("carry", ["position", "state"])
def test_another_run_reads_what_came_since_up_to_an_end_of_its_own(kafka, tmp_path, carry):
    topic, sent = kafka.topic(2), 0
    for number, count in enumerate((20, 7, 0, 5), start=1):
        kafka.send(topic, encoded(numbered(sent, count)))
        if number == 4:
            kafka.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
            kafka.await_leaders(topic, 3)
        job = ms.Job("kafka-runs", rows_per_epoch=10, carry=carry)
        spec = kafka_spec(topic, servers=kafka.servers, start="earliest", until="latest")
        job.source("in", spec, schema="n long, user string").sink("out", ms.files(tmp_path / "out"))
        result = job.run(local=True, checkpoint=tmp_path / "c")
        sent += count
        assert (result.run, result.rows_in) == (number, count)
        assert sorted(ms.read_files(tmp_path / "out")["n"].to_pylist()) == list(range(sent))
