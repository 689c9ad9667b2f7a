"""The `rabbitmq` sink on a real broker: the sink contract, and that an epoch may come again, and never half."""

from collections import Counter

import pytest
from tests.unit.connectors.rabbitmq.queues import RabbitSinkUnderTest
from tests.unit.connectors.sinks.contract import SinkContract

import millstream as ms
from millstream.connectors.messaging.loop import close_loop
from millstream.errors import InvalidStep, StepFailed
from millstream.testing.sink_race import race
from millstream.testing.sink_under_test import OpenedSink, ids, rows, seen

pytestmark = pytest.mark.brokers


@pytest.fixture(autouse=True, scope="module")
def nothing_open():
    yield
    close_loop()


class TestRabbitSink(SinkContract):
    @pytest.fixture
    def sink(self, rabbitmq_server, tmp_path):
        sink = RabbitSinkUnderTest(rabbitmq_server, tmp_path)
        rabbitmq_server.make(sink.queue)
        yield sink
        sink.close()
        rabbitmq_server.delete(sink.queue)

    def test_a_huge_epoch_of_several_tasks(self, sink):
        """A small part of the contract's: each message is confirmed by itself."""
        OpenedSink(sink).run(0, rows(0, 1_500), rows(1_500, 1_500))
        assert seen(sink) == rows(0, 3_000)

    def test_concurrent_committers_leave_each_epoch_once(self, sink):
        """A broker knows neither tokens nor names: owners that send at the same time send twice, and nothing is missing."""
        outcome = race(sink, seed=7)
        assert outcome.unexpected == []
        found = Counter(ids(sink))
        for epoch in outcome.published:
            assert all(found[row["id"]] >= 1 for row in outcome.content[epoch])


@pytest.fixture
def sink(rabbitmq_server, tmp_path, monkeypatch):
    monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 30.0)
    sink = RabbitSinkUnderTest(rabbitmq_server, tmp_path, url=rabbitmq_server.proxied_url)
    yield sink
    sink.close()


def test_a_lost_confirmation_repeats_messages_under_the_same_ids(sink, rabbitmq_server):
    owner = OpenedSink(sink)
    transaction = owner.prepare(0, rows(0))
    rabbitmq_server.proxy.lose_reply_to(b'"id":9')
    owner.publish(0, transaction)
    found = Counter(message.message_id for message in sink.messages())
    assert len(found) == 10
    assert set(found.values()) == {2}


def test_a_connection_that_broke_is_opened_again(sink, rabbitmq_server):
    owner = OpenedSink(sink)
    owner.run(0, rows(0))
    rabbitmq_server.proxy.cut()
    owner.run(1, rows(10))
    assert seen(sink) == rows(0, 20)


def test_messages_that_find_no_queue_stop_the_job(rabbitmq_server, tmp_path):
    sink = RabbitSinkUnderTest(rabbitmq_server, tmp_path, routing_key_field="name")
    with pytest.raises(StepFailed, match=r"RABBIT-021.*finds no queue"):
        OpenedSink(sink).run(0, rows(0))
    sink.close()


def test_a_queue_that_a_row_names_and_that_is_missing_fails_before_its_epoch_is_durable(rabbitmq_server, tmp_path):
    sink = RabbitSinkUnderTest(rabbitmq_server, tmp_path, routing_key_field="name")
    owner = OpenedSink(sink)
    missing = f"{sink.queue}-later"
    with pytest.raises(StepFailed, match=rf"RABBIT-021.*finds no queue.*{missing}"):
        owner.prepare(0, [{"id": 1, "name": missing, "amount": 1.0}])
    rabbitmq_server.make(missing)
    owner.run(0, [{"id": 1, "name": missing, "amount": 1.0}, {"id": 2, "name": sink.queue, "amount": 1.0}])
    sink.close()
    rabbitmq_server.delete(missing)


def test_a_missing_queue_is_created_or_named(rabbitmq_server, tmp_path):
    named = RabbitSinkUnderTest(rabbitmq_server, tmp_path, create=False)
    with pytest.raises(InvalidStep, match="RABBIT-004"):
        OpenedSink(named)
    named.close()
    made = RabbitSinkUnderTest(rabbitmq_server, tmp_path, kind="stream", headers={"who": "name"})
    OpenedSink(made).run(0, rows(0))
    made.close()
    source = ms.rabbitmq(made.queue, url=rabbitmq_server.url, kind="stream", start="earliest", until="latest")
    job = ms.Job("back")
    job.source("in", source, schema="id long").sink("out", ms.collect("rabbit-back"))
    job.run(local=True)
    from millstream.connectors.collect.sink import collected_table

    assert sorted(collected_table("rabbit-back")["id"].to_pylist()) == list(range(10))
