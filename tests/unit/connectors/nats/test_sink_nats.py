"""The `nats` sink passes the sink contract on a real server: with named messages, and with atomic batches."""

from collections import Counter

import pytest
from tests.unit.connectors.nats.nats_sinks import NatsSinkUnderTest
from tests.unit.connectors.sinks.contract import SinkContract

from millstream.connectors.messaging.loop import close_loop
from millstream.errors import StepFailed
from millstream.testing.sink_race import race
from millstream.testing.sink_under_test import OpenedSink, ids, rows, seen


@pytest.fixture(autouse=True, scope="module")
def nothing_open():
    yield
    close_loop()


class TestNamedMessages(SinkContract):
    @pytest.fixture
    def sink(self, nats_server, tmp_path):
        sink = NatsSinkUnderTest(nats_server, tmp_path)
        yield sink
        sink.close()

    def test_a_huge_epoch_of_several_tasks(self, sink):
        """A tenth of the contract's: each message is confirmed by itself."""
        transaction = OpenedSink(sink).run(0, rows(0, 5_000), rows(5_000, 5_000))
        assert transaction["rows"] == 10_000
        assert seen(sink) == rows(0, 10_000)

    def test_concurrent_committers_leave_each_epoch_once(self, sink):
        """A server knows names and no tokens: an owner that is replaced while it sends has sent what its successor sends."""
        outcome = race(sink, seed=7)
        assert outcome.unexpected == []
        assert outcome.published
        found = Counter(ids(sink))
        assert set(found.values()) == {1}
        for epoch, content in outcome.content.items():
            there = [row["id"] in found for row in content]
            assert all(there) or epoch not in outcome.published


class TestAtomicBatches(SinkContract):
    @pytest.fixture
    def sink(self, nats_server, tmp_path):
        sink = NatsSinkUnderTest(nats_server, tmp_path, atomic=True)
        yield sink
        sink.close()

    def test_a_huge_epoch_of_several_tasks(self, sink):
        """As many rows as fit a batch beside the mark; more are refused before the epoch is durable."""
        owner = OpenedSink(sink)
        owner.run(0, rows(0, 500), rows(500, 499))
        assert seen(sink) == rows(0, 999)
        with pytest.raises(StepFailed, match=r"NATS-022.*1000 rows.*999"):
            owner.prepare(1, rows(1000, 1000))
