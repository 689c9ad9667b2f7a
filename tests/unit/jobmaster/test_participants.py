"""Sources and sinks as participants: what waits, what is published in which order, what a failure keeps."""

import pytest

from millstream.errors import ExternalFailure
from millstream.jobmaster.participants import SinkParticipant, SourceParticipant


class Committer:
    def __init__(self):
        self.calls, self.fails = [], set()

    def _call(self, *call):
        if call[0] in self.fails:
            raise ExternalFailure(f"{call[0]} failed")
        self.calls.append(call)

    def fence(self):
        self._call("fence")

    def prepare(self, epoch, messages):
        self._call("prepare", epoch)
        return {"of": list(messages)}

    def publish(self, epoch, transaction):
        self._call("publish", epoch, transaction["of"])

    def discard(self, messages):
        self._call("discard", list(messages))

    def recover(self, durable):
        self._call("recover", durable)


class Enumerator:
    def __init__(self):
        self.positions, self.fails = [], False

    def acknowledge(self, position):
        if self.fails:
            raise ExternalFailure("the broker is away")
        self.positions.append(position)


@pytest.fixture
def committer():
    return Committer()


@pytest.fixture
def sink(committer):
    return SinkParticipant("fake", committer)


@pytest.fixture
def source():
    return SourceParticipant("fake", Enumerator())


def prepared(sink, *epochs):
    for epoch in epochs:
        sink.save(epoch, [f"m{epoch}"])
        sink.prepare(epoch)


def published(committer):
    return [(call[1], call[2]) for call in committer.calls if call[0] == "publish"]


def test_types_name_role_and_connector(sink, source):
    assert (sink.type, source.type) == ("sink fake", "source fake")


def test_what_is_saved_belongs_to_its_epoch(sink, committer):
    buffer = ["a", "b"]
    assert sink.save(4, buffer) == {"parts": 2}
    buffer.append("of the next epoch")
    assert sink.prepare(4) == {"of": ["a", "b"]}


def test_a_sink_publishes_every_epoch_up_to_the_finished_one_in_order(sink, committer):
    prepared(sink, 2, 0, 1, 3)
    sink.finish(2, success=True)
    assert published(committer) == [(0, ["m0"]), (1, ["m1"]), (2, ["m2"])]
    sink.finish(3, success=True)
    assert published(committer)[3:] == [(3, ["m3"])]


def test_failure_keeps_what_is_prepared(sink, committer):
    prepared(sink, 0)
    sink.finish(0, success=False)
    assert [call[0] for call in committer.calls] == ["prepare"]
    sink.finish(0, success=True)
    assert published(committer) == [(0, ["m0"])]


def test_a_failed_publication_stays_pending_and_comes_first(sink, committer):
    prepared(sink, 0)
    committer.fails = {"publish"}
    with pytest.raises(ExternalFailure):
        sink.finish(0, success=True)
    committer.fails = set()
    prepared(sink, 1)
    sink.finish(1, success=True)
    assert [epoch for epoch, _ in published(committer)] == [0, 1]


def test_a_decided_transaction_takes_the_place_of_a_prepared_one(sink, committer):
    prepared(sink, 0)
    sink.decide(0, {"of": ["decided"]})
    sink.finish(0, success=True)
    assert published(committer) == [(0, ["decided"])]


def test_restore_publishes_the_durable_epoch_then_drops_the_rest(sink, committer):
    prepared(sink, 4, 5)
    committer.calls.clear()
    for _ in range(2):
        sink.restore(3, {"of": ["durable"]})
    assert committer.calls == [("publish", 3, ["durable"]), ("recover", 3)] * 2
    sink.finish(5, success=True)
    assert published(committer) == [(3, ["durable"])] * 2


@pytest.mark.parametrize(("epoch", "handle"), [(None, None), (3, None)])
def test_restore_without_a_transaction_publishes_nothing(sink, committer, epoch, handle):
    sink.restore(epoch, handle)
    assert committer.calls == [("recover", epoch)]


def test_restore_that_cannot_publish_drops_nothing(sink, committer):
    committer.fails = {"publish"}
    with pytest.raises(ExternalFailure):
        sink.restore(3, {"of": ["durable"]})
    assert committer.calls == []


def test_a_replay_is_dropped_but_not_the_very_messages_of_a_transaction(sink, committer):
    prepared(sink, 0)
    sink.discard(["m0"])
    sink.finish(0, success=True)
    sink.discard(["m0"])
    prepared(sink, 1)
    sink.discard(["m0"])
    assert not any(call[0] == "discard" for call in committer.calls)
    sink.discard(["m1 of another attempt"])
    assert committer.calls[-1] == ("discard", ["m1 of another attempt"])


def test_fence_raises_the_fence_of_the_sink(sink, committer, source):
    sink.fence()
    source.fence()
    assert committer.calls == [("fence",)]


def test_a_source_acknowledges_in_order_and_only_with_success(source):
    for epoch in (0, 1):
        assert source.save(epoch, [epoch * 10]) is None
        assert source.prepare(epoch) == epoch * 10
    source.finish(1, success=False)
    assert source._enumerator.positions == []
    source.finish(1, success=True)
    source.finish(1, success=True)
    assert source._enumerator.positions == [0, 10]


def test_a_failed_acknowledgement_is_made_again(source):
    source.save(0, [5])
    source._enumerator.fails = True
    with pytest.raises(ExternalFailure):
        source.finish(0, success=True)
    source._enumerator.fails = False
    source.finish(0, success=True)
    assert source._enumerator.positions == [5]


def test_a_source_acknowledges_again_after_a_crash(source):
    source.save(8, [80])
    source.restore(7, 70)
    source.finish(8, success=True)
    assert source._enumerator.positions == [70]
    source.restore(None, None)
    assert source._enumerator.positions == [70]


def test_a_source_reports_one_position(source):
    with pytest.raises(ValueError, match="unpack"):
        source.save(0, [1, 2])
