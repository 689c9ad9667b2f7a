"""Jobs that write to Kafka, run in this process and killed in others: output, restarts, guarantees, routing."""

import datetime as dt
import json
import os
import subprocess
import sys
import uuid
from collections import Counter

import pytest
from confluent_kafka.admin import NewPartitions
from tests.unit.connectors.kafka.sink_under_test import options_of
from tests.unit.local.stories import Ask, play

import millstream as ms
from millstream.connectors.kafka import places
from millstream.connectors.kafka.direct import KafkaDirectWriter
from millstream.connectors.kafka.places import KnownPlaces
from millstream.contract.sink import SinkTask
from millstream.errors import CheckpointRefused, InvalidStep, MillstreamError, StepFailed
from millstream.model.ids import Epoch
from millstream.model.schema import schema_of
from millstream.records.codecs import rows_to_batch
from millstream.testing import ADVANCE_CLOCK

pytestmark = pytest.mark.kafka

SCHEMA = "id long, name string"
ROWS = [{"id": number, "name": f"n{number}"} for number in range(200)]


@pytest.fixture
def topic(kafka):
    return kafka.topic(3, name="out")


def job_of(kafka, topic, content=ROWS, *, schema=SCHEMA, settings=None, **options):
    """A job whose rows pass a shuffle, so that several tasks write."""
    job = ms.Job(f"job-{topic or uuid.uuid4().hex}", **(settings or {}))
    stream = job.source("rows", ms.memory(content), schema=schema).rebalance()
    stream.sink("out", ms.kafka(topic, servers=kafka.servers, **options))
    return job


def shown(kafka, topic):
    return sorted((json.loads(message.value()) for message in kafka.read(topic)), key=lambda row: row["id"])


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("guarantee", ["exactly_once", "effectively_once", "at_least_once", "best_effort"])
def test_a_job_writes_its_rows_once(kafka, topic, tmp_path, mode, guarantee):
    kept = {} if guarantee == "best_effort" else {"checkpoint": tmp_path / "checkpoint"}
    job = job_of(kafka, topic, settings={"guarantee": guarantee}, mode=mode, key_fields="name")
    job.run(local=True, **kept)
    assert shown(kafka, topic) == ROWS


def test_a_job_without_a_checkpoint_writes_its_rows_and_leaves_nothing(kafka, topic):
    job_of(kafka, topic).run(local=True)
    job_of(kafka, topic).run(local=True)
    assert Counter(row["id"] for row in shown(kafka, topic)) == Counter([*range(200), *range(200)])


def test_a_finished_job_that_runs_again_writes_nothing(kafka, topic, tmp_path):
    for _ in range(2):
        job_of(kafka, topic).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert shown(kafka, topic) == ROWS


@pytest.mark.parametrize("where", ["staged", "durable", "sink_transaction", "sink_published", "published"])
def test_a_crash_between_two_steps(kafka, topic, tmp_path, failpoints, where):
    # The first transaction is the fence's.
    nth = 2 if where == "sink_transaction" else 1
    failpoints(f"{where}:{nth}:raise")
    with pytest.raises(BaseException, match=where):
        job_of(kafka, topic).run(local=True, checkpoint=tmp_path / "checkpoint")
    failpoints("")
    job_of(kafka, topic).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert shown(kafka, topic) == ROWS
    assert list((tmp_path / "checkpoint").rglob("staging/**/*.arrow")) == []


_JOB = """
import sys
import millstream as ms
servers, topic, checkpoint = sys.argv[1:]
rows = [{"id": number, "name": f"n{number}"} for number in range(200)]
job = ms.Job(f"job-{topic}")
stream = job.source("rows", ms.memory(rows), schema="id long, name string", credit=40)
stream.rebalance().sink("out", ms.kafka(topic, servers=servers))
job.run(local=True, checkpoint=checkpoint)
"""


@pytest.mark.parametrize(
    "where", ["durable:3:kill", "manifest_written:2:kill", "sink_transaction:3:kill", "published:2:kill"]
)
def test_a_killed_process_is_followed_by_one_that_ends_the_work(kafka, topic, tmp_path, where):
    command = [sys.executable, "-c", _JOB, kafka.servers, topic, str(tmp_path / "checkpoint")]
    killed = subprocess.run(command, env={**os.environ, "MILLSTREAM_FAILPOINTS": where}, check=False)
    assert killed.returncode == -9
    before = shown(kafka, topic)
    assert before == ROWS[: len(before)]
    subprocess.run(command, check=True)
    assert shown(kafka, topic) == ROWS


def test_staging_that_was_lost_stops_the_job(kafka, topic, tmp_path, failpoints):
    failpoints("durable:1:raise")
    with pytest.raises(BaseException, match="durable"):
        job_of(kafka, topic).run(local=True, checkpoint=tmp_path / "checkpoint")
    failpoints("")
    next(iter((tmp_path / "checkpoint").rglob("*.arrow"))).unlink()
    with pytest.raises(CheckpointRefused, match="KAFKA-022"):
        job_of(kafka, topic).run(local=True, checkpoint=tmp_path / "checkpoint")


def test_a_topic_that_is_missing(kafka, tmp_path):
    name = f"missing-{uuid.uuid4().hex}"
    with pytest.raises(InvalidStep, match=rf"KAFKA-004.*{name}"):
        job_of(kafka, name, create=False).run(local=True, checkpoint=tmp_path / "checkpoint")
    job_of(kafka, name, mode="upsert", key_fields="name").run(local=True, checkpoint=tmp_path / "other")
    assert shown(kafka, name) == ROWS


def test_a_restored_job_refuses_or_keeps_what_lies_beyond_its_savepoint(kafka, topic, tmp_path):
    def job():
        made = ms.Job(f"job-{topic}", rows_per_epoch=20)
        made.source("rows", ms.memory(ROWS), schema=SCHEMA).sink("out", ms.kafka(topic, servers=kafka.servers))
        return made

    told = play(job(), tmp_path / "old", Ask(after=3, action="savepoint", to=tmp_path, id="s"))
    assert shown(kafka, topic) == ROWS
    restored = {"local": True, "checkpoint": tmp_path / "new", "from_savepoint": told.answers[0].path}
    with pytest.raises(CheckpointRefused, match=r"SINK-003.*--on-newer-output keep"):
        job().run(**restored)
    with pytest.raises(CheckpointRefused, match="SINK-004"):
        job().run(**{**restored, "checkpoint": tmp_path / "newer"}, on_newer_output="truncate")
    job().run(**{**restored, "checkpoint": tmp_path / "newest"}, on_newer_output="keep")
    times = Counter(row["id"] for row in shown(kafka, topic))
    assert [times[number] for number in range(200)] == sorted(times.values())
    assert set(times.values()) == {1, 2}


# Routing


def test_key_time_headers_and_partition_of_a_message(kafka, topic):
    at = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    rows = [{"id": "a", "at": at, "trace": "t", "p": 2, "n": 1}]
    job = job_of(
        kafka,
        topic,
        rows,
        schema="id string, at timestamp, trace string, p int, n long",
        key_fields="id",
        value_fields=["n"],
        timestamp="at",
        headers={"trace-id": "trace"},
        partition_field="p",
    )
    job.run(local=True)
    (message,) = kafka.read(topic)
    assert (message.key(), message.value(), message.partition()) == (b"a", b'{"n":1}', 2)
    assert message.timestamp()[1] == int(at.timestamp() * 1000)
    assert message.headers() == [("trace-id", b"t")]


def test_a_changelog_becomes_a_topic_with_the_last_of_each_key(kafka, topic):
    rows = [
        {"id": "a", "n": 1, "op": "insert"},
        {"id": "b", "n": 1, "op": "insert"},
        {"id": "a", "n": 2, "op": "update"},
        {"id": "b", "n": None, "op": "delete"},
    ]
    job = ms.Job(f"job-{topic}")
    stream = job.source("rows", ms.memory(rows), schema="id string, n long, op string")
    stream.sink("out", ms.kafka(topic, servers=kafka.servers, mode="upsert", key_fields="id"))
    job.run(local=True)
    assert {message.key(): message.value() for message in kafka.read(topic)} == {b"a": b'{"id":"a","n":2}', b"b": None}
    assert len(kafka.read(topic)) == 2


def test_results_over_changes_become_a_topic_without_those_that_are_gone(kafka, topic):
    rows = [{"id": n, "user": user, "kind": "insert"} for n, user in enumerate("aabb")]
    changes = [*rows, dict(ADVANCE_CLOCK(0)), *({**row, "kind": "delete"} for row in rows[1:])]
    job = ms.Job(f"job-{topic}")
    stream = job.source("rows", ms.memory(changes), schema="id long, user string, kind string")
    counts = stream.as_changelog(op="kind", images="both").key_by("user").aggregate(n=ms.count(), id="counts")
    counts.sink("out", ms.kafka(topic, servers=kafka.servers, mode="upsert", key_fields="user"))
    job.run(local=True)
    newest = {message.key(): message.value() for message in kafka.read(topic)}
    assert newest == {b"a": b'{"user":"a","n":1}', b"b": None}


def test_rows_choose_their_topic_and_equal_ones_a_partition(kafka):
    first, second = kafka.topic(3), kafka.topic(5)
    rows = [
        {"to": topic, "land": land, "id": n} for n in range(30) for topic in (first, second) for land in ("de", "fr")
    ]
    job = ms.Job(f"job-{first}")
    stream = job.source("rows", ms.memory(rows), schema="`to` string, land string, id long").rebalance()
    stream.sink("out", ms.kafka(servers=kafka.servers, topic_field="to", partition_by=["land"]))
    job.run(local=True)
    for topic in (first, second):
        messages = kafka.read(topic)
        assert len(messages) == 60
        places = {(json.loads(message.value())["land"], message.partition()) for message in messages}
        assert len(places) == 2


def test_a_topic_that_a_row_names_and_that_is_missing(kafka, tmp_path):
    name = f"missing-{uuid.uuid4().hex}"
    job = job_of(kafka, (), [{"id": 1, "to": name}], schema="id long, `to` string", topic_field="to")
    with pytest.raises(StepFailed, match=rf"KAFKA-021.*{name}"):
        job.run(local=True, checkpoint=tmp_path / "checkpoint")


def test_a_partition_that_is_not_there_is_named(kafka, topic, tmp_path):
    job = job_of(kafka, topic, [{"id": 1, "p": 17}], schema="id long, p int", partition_field="p")
    with pytest.raises(StepFailed, match=r"KAFKA-021.*_UNKNOWN_PARTITION"):
        job.run(local=True, checkpoint=tmp_path / "checkpoint")
    assert kafka.read(topic) == []


@pytest.mark.parametrize("row", [{"to": "missing-{}", "p": 0}, {"to": None, "p": 17}, {"to": "{}", "p": 3}])
def test_an_epoch_whose_rows_lead_nowhere_does_not_become_durable(kafka, topic, tmp_path, row):
    other, checkpoint = kafka.topic(3), tmp_path / "checkpoint"
    settings = {"topic_field": "to", "partition_field": "p", "schema": "id long, `to` string, p int"}
    wrong = {"id": 1, "p": row["p"], "to": row["to"] and row["to"].format(other)}
    with pytest.raises(StepFailed, match=r"KAFKA-021.*does not exist"):
        job_of(kafka, topic, [wrong], **settings).run(local=True, checkpoint=checkpoint)
    assert kafka.read(topic) == kafka.read(other) == []
    # Nothing waits to be sent: rows that are mended are read and go on.
    job_of(kafka, topic, [{"id": 1, "to": other, "p": 2}], **settings).run(local=True, checkpoint=checkpoint)
    assert [message.partition() for message in kafka.read(other)] == [2]


def test_partitions_that_were_added_while_a_job_runs_are_found(kafka, topic):
    known = KnownPlaces({"bootstrap.servers": kafka.servers}, topic, step="out")
    known.check([(None, 2)])
    with pytest.raises(StepFailed, match="3 partitions"):
        known.check([(None, 3)])
    kafka.admin.create_partitions([NewPartitions(topic, 5)])[topic].result()
    known.check([(None, 4)])


def test_brokers_that_do_not_answer_are_for_those_who_send(monkeypatch):
    monkeypatch.setattr(places, "_ASK_SECONDS", 0.2)
    KnownPlaces({"bootstrap.servers": "127.0.0.1:1"}, "out", step="out").check([(None, 3), ("other", -1)])


# Written directly


def direct(kafka, topic, schema=SCHEMA, **options):
    spec = ms.kafka(topic, servers=kafka.servers, **options)
    task = SinkTask(job="job", lineage="one", step="out", epoch=Epoch(0), task="0-0", attempt="a")
    return KafkaDirectWriter(options_of(spec), schema_of(schema), task)


def test_direct_messages_have_arrived_when_the_task_has_finished(kafka, topic):
    for start in (0, 100):  # the second one takes the connection of the first
        writer = direct(kafka, topic)
        writer.write(rows_to_batch(ROWS[start : start + 100], schema_of(SCHEMA)))
        assert writer.finish() == {"rows": 100}
    assert shown(kafka, topic) == ROWS
    assert direct(kafka, topic).finish() is None


def test_a_direct_upsert_sends_the_last_of_each_key(kafka, topic):
    writer = direct(kafka, topic, mode="upsert", key_fields="name")
    for number in range(3):
        writer.write(rows_to_batch([{"id": number, "name": "same"}], schema_of(SCHEMA)))
    writer.finish()
    assert shown(kafka, topic) == [{"id": 2, "name": "same"}]


def test_an_aborted_direct_task_holds_nothing_back(kafka, topic):
    writer = direct(kafka, topic, mode="upsert", key_fields="name")
    writer.write(rows_to_batch(ROWS[:1], schema_of(SCHEMA)))
    writer.abort()
    assert shown(kafka, topic) == []


def test_a_direct_message_that_cannot_arrive_fails_the_task(kafka, topic):
    writer = direct(kafka, topic, schema="id long, p int", partition_field="p")
    with pytest.raises(MillstreamError, match=r"KAFKA-021.*_UNKNOWN_PARTITION"):
        writer.write(rows_to_batch([{"id": 1, "p": 17}], schema_of("id long, p int")))
        writer.finish()
