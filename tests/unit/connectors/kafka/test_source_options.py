"""Options of a source that do not fit what is read: refused where the step is built, or before anything is decided."""

import contextlib

import pytest
from tests.unit.connectors.sources.source_under_test import Opened, SourceUnderTest

import millstream as ms
from millstream.connectors.kafka import broker, fetching
from millstream.connectors.kafka.spec import kafka as kafka_spec
from millstream.contract.source import BadRecord
from millstream.errors import ExternalFailure, InvalidStep, StepFailed
from millstream.model.schema import schema_of


def refused(topics="orders", **options):
    with pytest.raises(InvalidStep) as problem:
        ms.Job("read").source(
            "in", ms.kafka(topics, servers="127.0.0.1:9", **{"start": "earliest", **options}), schema="n long"
        )
    assert problem.value.step == "in"
    return str(problem.value)


@pytest.mark.parametrize("option", ["start", "until"])
def test_offsets_of_what_is_not_read_are_no_offsets(option):
    """What was meant would be read from its first record, or to its end."""
    assert f"KAFKA-010] step 'in': {option}= names topic 'order'" in refused(**{option: {"order": {0: 3}}})
    assert f"{option}= names topic 'b1'" in refused((), pattern="a.*", **{option: {"a1": {0: 1}, "b1": {0: 3}}})
    text = refused(partitions={"orders": [0, 2]}, **{option: {"orders": {0: 1, 1: 3}}})
    assert f"{option}= names partition 1 of topic 'orders'" in text


@pytest.mark.parametrize("offset", [-1, 2**63, "3", True, 1.5])
def test_an_offset_is_a_number_that_kafka_has(offset):
    assert "whole numbers by partition" in refused(start={"orders": {0: offset}})


def test_a_group_has_a_name():
    """The client ends the process for one that is empty."""
    assert "option 'group'" in refused(group="")


def test_topics_are_looked_for_again_after_a_while_or_never():
    assert "option 'discover'" in refused(discover=-1)


def opened(kafka, folder, topic, **options):
    source = SourceUnderTest()
    source.schema, source.folder = schema_of("n long"), folder
    source.spec = kafka_spec(topic, servers=kafka.servers, **{"start": "earliest", **options})
    return contextlib.closing(Opened(source))


@pytest.mark.kafka
@pytest.mark.parametrize("option", ["start", "until"])
def test_a_partition_that_is_not_there_is_named(kafka, tmp_path, option):
    topic = kafka.topic(2)
    with (
        opened(kafka, tmp_path, topic, **{option: {topic: {0: 0, 2: 5}}}) as source,
        pytest.raises(InvalidStep, match=rf"KAFKA-012.*has no partition 2; known: 0, 1; correct {option}="),
    ):
        source.initial()


@pytest.mark.kafka
@pytest.mark.parametrize("until", [{}, {"until": "latest"}])
def test_a_beginning_behind_the_end_is_refused_and_not_kept(kafka, tmp_path, until):
    topic = kafka.topic(1)
    kafka.send(topic, [b"{}"] * 3)
    with (
        opened(kafka, tmp_path, topic, start={topic: {0: 30}}, **until) as source,
        pytest.raises(StepFailed, match=r"KAFKA-013.*/0 ends before start=; found offset 30, and the end is 3"),
    ):
        source.initial()
    with opened(kafka, tmp_path, topic, start={topic: {0: 3}}, **until) as corrected:
        assert corrected.initial()["topics"][topic]["at"] == {"0": 3}


@pytest.mark.kafka
def test_a_beginning_behind_the_end_is_the_end_where_loss_is_accepted(kafka, tmp_path):
    topic = kafka.topic(1)
    kafka.send(topic, [b"{}"] * 3)
    with opened(kafka, tmp_path, topic, start={topic: {0: 30}}, on_data_loss="skip") as source:
        assert source.initial()["topics"][topic]["at"] == {"0": 3}


@pytest.mark.kafka
def test_a_run_does_not_end_while_a_partition_ends_before_its_position(kafka, tmp_path, monkeypatch):
    """As after a leader that lacked records took over: with an end that was reached before, that looked like all of it."""
    topic = kafka.topic(1)
    kafka.send(topic, [b"{}"] * 3)
    with opened(kafka, tmp_path, topic, until="latest") as source:
        position = source.initial()
        position["topics"][topic]["at"]["0"] = 30
        assert not source.advance(position, 10).finished
        monkeypatch.setattr("millstream.connectors.kafka.source._SHORT_SECONDS", 0.0)
        with pytest.raises(StepFailed, match="KAFKA-013"):
            source.advance(position, 10)


@pytest.mark.kafka
def test_a_topic_that_stays_missing_is_named_within_seconds(kafka, tmp_path, monkeypatch):
    """Brokers that answer know their topics: a misspelt one is not worth the patience for those that are away."""
    monkeypatch.setattr(broker, "_MISSING_SECONDS", 0.2)
    with opened(kafka, tmp_path, "no-such-topic") as source, pytest.raises(ExternalFailure, match="KAFKA-011"):
        source.initial()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("column", "good"),
    [("k string", [None, "", "a"]), ("k string not null", ["", "a"]), ("k binary not null", [b"", b"\xff", b"a"])],
)
def test_a_key_that_is_no_value_of_its_column_makes_a_message_bad(kafka, tmp_path, column, good):
    """Text that it is not would make one of two keys; null would stand where none may."""
    topic = kafka.topic(1)
    keys = [None, b"", b"\xff", b"a"]
    for key in keys:
        kafka.send(topic, [b'{"n":1}'], key=key)
    source = SourceUnderTest()
    source.schema, source.folder = schema_of(f"n long, {column}"), tmp_path
    source.spec = kafka_spec(topic, servers=kafka.servers, start="earliest", metadata={"k": "key"})
    with contextlib.closing(Opened(source)) as read:
        start = read.initial()
        (split,) = read.splits(start, read.advance(start, 10).position)
        parts = list(read._reader().read(split.body))
        fetching.close_parked()
    bad = [part.origin for part in parts if isinstance(part, BadRecord)]
    rows = [row for part in parts if not isinstance(part, BadRecord) for row in part.to_pylist()]
    assert [row["k"] for row in rows] == good
    assert len(bad) == len(keys) - len(good)
