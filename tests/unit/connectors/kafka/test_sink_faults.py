"""The `kafka` sink while replies are lost, transactions expire, owners stand still and the broker is killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from tests.servers.kafka import KafkaServer
from tests.unit.connectors.kafka.sink_under_test import KafkaUnderTest
from tests.unit.connectors.sinks.under_test import Owner, context, ids, rows, seen, stage, through_json

from millstream.connectors.kafka import target
from millstream.connectors.kafka.client_options import client_config
from millstream.connectors.kafka.outgoing import sending
from millstream.connectors.kafka.transactions import mark_topic as reading
from millstream.connectors.kafka.transactions import owner, producer, questions
from millstream.connectors.kafka.transactions.marks import Mark, mark_topic, transactional_id
from millstream.connectors.kafka.transactions.owner import SinkOwner
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced, InvalidStep, StepFailed

pytestmark = pytest.mark.kafka

_END_TRANSACTION = 26


@pytest.fixture(scope="module")
def server():
    """A broker of its own, because it is killed."""
    started = KafkaServer(proxied=True).start()
    yield started
    started.stop()


@pytest.fixture
def open_sink(server, tmp_path):
    opened = contextlib.ExitStack()

    def open_one(**options):
        sink = KafkaUnderTest(server, tmp_path / f"sink-{time.monotonic_ns()}", **options)
        opened.callback(sink.close)
        return sink

    with opened:
        yield open_one


@pytest.fixture
def behind_proxy(server, open_sink):
    return open_sink(servers=server.proxied_servers)


def is_commit(data):
    """Whether a request of the protocol ends a transaction."""
    return int.from_bytes(data[4:6], "big") == _END_TRANSACTION


def in_transaction(monkeypatch, *actions):
    """Do something when the messages of a transaction have arrived and are not committed; once each, in turn."""
    waiting = list(actions)
    monkeypatch.setattr(producer, "failpoint", lambda _: waiting.pop(0)() if waiting else None)
    return waiting


def impatient(monkeypatch, seconds=3.0):
    for module in (questions, owner, producer, sending):
        monkeypatch.setattr(module, "PATIENCE", seconds)
    for module in (questions, reading, producer, target):
        monkeypatch.setattr(module, "ASK_SECONDS", 0.5)
    for name in ("_INIT_SECONDS", "_COMMIT_SECONDS"):
        monkeypatch.setattr(producer, name, 1.0)


# Replies


def test_a_commit_whose_reply_is_lost_is_one_commit(server, behind_proxy):
    run = Owner(behind_proxy)
    transaction = run.prepare(0, rows(0))
    server.proxy.lose_reply_to(is_commit)
    run.publish(0, transaction)
    assert server.proxy.lost.is_set()
    assert seen(behind_proxy) == rows(0)
    run.publish(0, transaction)
    run.run(1, rows(10))
    assert seen(behind_proxy) == rows(0, 20)


def test_after_a_commit_that_nobody_heard_of_the_mark_decides(server, behind_proxy, monkeypatch):
    run = Owner(behind_proxy)
    transaction = run.prepare(0, rows(0))
    commits = []

    def once(self, heartbeat, until):
        """The client commits, its caller hears of a time-out, and patience has ended."""
        commits.append(self._client.commit_transaction(10))
        if len(commits) == 1:
            raise producer.KafkaException(producer.KafkaError(producer.KafkaError._TIMED_OUT))

    monkeypatch.setattr(producer.TransactionalProducer, "_commit", once)
    run.publish(0, transaction)
    assert len(commits) == 1
    assert seen(behind_proxy) == rows(0)


def test_a_commit_that_arrives_late_does_not_commit_half_of_the_next_epoch(server, behind_proxy, monkeypatch):
    """Its sender was cut off and sent it again: without a fence between, it would end whatever transaction is open."""
    run = Owner(behind_proxy)
    first, second = run.prepare(0, rows(0)), run.prepare(1, rows(10))
    server.proxy.hold(is_commit)
    run.publish(0, first)
    seen_meanwhile = []

    def deliver():
        server.proxy.release()
        seen_meanwhile.append(ids(behind_proxy))

    in_transaction(monkeypatch, deliver)
    run.publish(1, second)
    assert seen_meanwhile == [list(range(10))]
    assert seen(behind_proxy) == rows(0, 20)


# Time


def test_an_epoch_whose_transaction_expired_is_sent_again(open_sink, monkeypatch):
    sink = open_sink(transaction_timeout="1s")
    run = Owner(sink)
    waiting = in_transaction(monkeypatch, lambda: sink.broker.await_no_transaction(sink.topic, 2))
    run.run(0, rows(0))
    assert not waiting
    assert seen(sink) == rows(0)


def test_an_epoch_that_always_expires_names_the_option(open_sink, monkeypatch):
    sink = open_sink(transaction_timeout="1s")
    run = Owner(sink)
    impatient(monkeypatch, 1.0)
    in_transaction(monkeypatch, *[lambda: sink.broker.await_no_transaction(sink.topic, 2)] * 9)
    with pytest.raises(ExternalFailure, match=r"KAFKA-025.*transaction_timeout="):
        run.run(0, rows(0))
    assert seen(sink) == []


def test_a_timeout_that_the_broker_does_not_allow_is_refused_before_anything_is_read(open_sink):
    with pytest.raises(InvalidStep, match=r"KAFKA-023.*found 3600000 ms.*known: 900000 ms"):
        Owner(open_sink(transaction_timeout="1h"))


# Owners


_STOPPED_OWNER = """
import dataclasses, json, sys
from millstream.connectors.kafka.committer import KafkaCommitter
from millstream.errors import Fenced
from tests.unit.connectors.sinks.under_test import context
told = json.loads(sys.argv[1])
committer = KafkaCommitter(told["options"], dataclasses.replace(context(token=1), staging=told["staging"]))
committer.fence()
try:
    committer.publish(0, told["transaction"])
except Fenced as problem:
    print("fenced", problem.code, flush=True)
else:
    print("published", flush=True)
"""


def test_an_owner_that_is_stopped_with_messages_sent_loses_to_its_successor(open_sink):
    sink = open_sink()
    transaction = Owner(sink, token=1).prepare(0, rows(0))
    staging = sink._staging(context())
    told = json.dumps({"options": sink.options, "staging": staging, "transaction": transaction})
    # The second transaction of the process, behind that of the fence.
    environment = {**os.environ, "MILLSTREAM_FAILPOINTS": "sink_transaction:2:stop", "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", _STOPPED_OWNER, told]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            _await_stopped(process.pid)
            assert len(sink.broker.read(sink.topic, isolation="read_uncommitted")) == 10
            successor = Owner(sink, token=2)
            successor.publish(0, transaction)
            successor.run(1, rows(10))
        finally:
            process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "fenced CKPT-020\n"
    assert seen(sink) == rows(0, 20)


def _await_stopped(pid, seconds=60):
    until = time.monotonic() + seconds
    while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        assert time.monotonic() < until, "it does not get to the failpoint"
        time.sleep(0.02)


def test_a_late_starter_with_an_old_token_only_interrupts(open_sink):
    sink = open_sink()
    newer = Owner(sink, token=5)
    newer.run(0, rows(0))
    with pytest.raises(Fenced):
        Owner(sink, token=4)
    newer.run(1, rows(10))
    assert seen(sink) == rows(0, 20)


def test_marks_behind_a_transaction_that_somebody_left_open_are_found(open_sink):
    """An owner of another lineage died between sending its mark and committing it."""
    sink = open_sink()
    Owner(sink, lineage="dead", token=1)
    config = client_config(sink.options, step="out")
    prefix = sink.options["prefix"]
    dead = Producer({**config, "transactional.id": transactional_id(prefix, "job", "out", "dead"), "log_level": 0})
    dead.init_transactions(20)
    dead.begin_transaction()
    record = Mark(lineage="dead", token=1).message()
    dead.produce(mark_topic(prefix, "job", "out"), record.encoded(), record.key)
    dead.flush(20)
    first = Owner(sink, token=1)
    transaction = first.run(0, rows(0))
    Owner(sink, token=2).publish(0, transaction)
    assert seen(sink) == rows(0)


def test_a_foreign_open_transaction_in_the_topic_hides_no_mark(server, open_sink):
    sink = open_sink(partitions=1)
    foreign = Producer(
        {"bootstrap.servers": server.servers, "transactional.id": f"foreign-{sink.topic}", "log_level": 0}
    )
    foreign.init_transactions(20)
    foreign.begin_transaction()
    foreign.produce(sink.topic, b'{"id": -1}')
    foreign.flush(20)
    transaction = Owner(sink, token=1).run(0, rows(0))
    assert seen(sink) == []  # readers wait for the foreign one
    Owner(sink, token=2).publish(0, transaction)
    foreign.abort_transaction(20)
    assert seen(sink) == rows(0)


def test_of_two_lineages_that_take_over_from_each_other_one_goes_on(open_sink):
    sink = open_sink()
    one, two = (Owner(sink, lineage=name, token=1) for name in ("one", "two"))
    one.committer.succeed([], "keep")
    with pytest.raises(Fenced):
        two.committer.succeed([], "keep")
    one.run(0, rows(0))
    assert seen(sink) == rows(0)


def test_an_owner_replaced_while_it_takes_over_closes_nothing(open_sink, monkeypatch):
    sink = open_sink()
    late = Owner(sink, lineage="two", token=1)
    change, newer = SinkOwner.change, []

    def overtaken(self, decide):
        if not newer and self._context.token == 1 and self._context.lineage == "two":
            newer.append(Owner(sink, lineage="three", token=3))
            newer[0].committer.succeed([("two", -1)], "refuse")
        change(self, decide)

    monkeypatch.setattr(SinkOwner, "change", overtaken)
    with pytest.raises(Fenced):
        late.committer.succeed([], "refuse")
    newer[0].run(0, rows(0))
    assert seen(sink) == rows(0)


# The broker


def test_a_broker_killed_before_the_commit(server, open_sink, monkeypatch):
    sink = open_sink()
    run = Owner(sink)
    run.run(0, rows(0))
    waiting = in_transaction(monkeypatch, server.restart)
    run.run(1, rows(10))
    assert not waiting
    run.run(2, rows(20))
    assert seen(sink) == rows(0, 30)


def test_a_broker_that_is_away_fails_the_epoch_and_not_the_sink(server, open_sink, monkeypatch):
    sink = open_sink()
    run = Owner(sink)
    transaction = run.prepare(0, rows(0))
    impatient(monkeypatch)
    server.pause()
    try:
        with pytest.raises(ExternalFailure, match="KAFKA-002"):
            run.publish(0, transaction)
    finally:
        server.resume()
    monkeypatch.undo()
    run.publish(0, transaction)
    assert seen(sink) == rows(0)


def test_nobody_listens_at_the_servers(server, open_sink, monkeypatch):
    sink = open_sink(servers="127.0.0.1:1")
    impatient(monkeypatch, 0.5)
    with pytest.raises(ExternalFailure, match=r"KAFKA-002.*servers="):
        Owner(sink)


def test_lost_marks_are_refused(server, open_sink):
    sink = open_sink()
    Owner(sink).run(0, rows(0))
    topic = mark_topic(sink.options["prefix"], "job", "out")
    server.admin.delete_topics([topic])[topic].result(20)
    _await_gone(server, topic)
    with pytest.raises(CheckpointRefused, match=r"SINK-005.*nothing shows what is published"):
        Owner(sink, token=2)


def _await_gone(server, topic, seconds=20):
    until = time.monotonic() + seconds
    while topic in server.admin.list_topics(timeout=10).topics:
        assert time.monotonic() < until, "the topic is still there"
        time.sleep(0.02)


def test_a_mark_topic_that_forgets_is_refused(server, open_sink):
    sink = open_sink()
    named = NewTopic(mark_topic(sink.options["prefix"], "job", "out"), num_partitions=2, replication_factor=1)
    server.admin.create_topics([named])[named.topic].result(20)
    server.await_leaders(named.topic, 2)
    with pytest.raises(CheckpointRefused, match=r"KAFKA-024.*'partitions': '2'.*one partition, cleanup.policy=compact"):
        Owner(sink)


def test_a_heartbeat_that_raises_ends_a_publish_with_nothing_shown(open_sink, monkeypatch):
    sink = open_sink()
    Owner(sink)

    def lost():
        raise Fenced("the lease is lost")

    committer = sink.committer(context(token=1))
    committer.fence()
    messages = stage(sink, context(token=1), 0, rows(0))
    transaction = through_json(committer.prepare(0, messages))
    beating = sink.committer(context(token=1), heartbeat=lost)
    with pytest.raises(Fenced, match="the lease is lost"):
        beating.publish(0, transaction)
    assert seen(sink) == []
    Owner(sink, token=2).publish(0, transaction)
    assert seen(sink) == rows(0)


def test_a_message_that_is_too_large_is_named_and_not_tried_again(open_sink):
    sink = open_sink()
    large = [*rows(0), {"id": 99, "name": "x" * 2_000_000, "amount": 0.0}]
    with pytest.raises(StepFailed, match=r"KAFKA-021.*MSG_SIZE_TOO_LARGE.*message.max.bytes"):
        Owner(sink).run(0, large)
    # Nor does it hold up readers until its transaction expires.
    sink.broker.await_no_transaction(sink.topic, 2)
    assert ids(sink) == []
