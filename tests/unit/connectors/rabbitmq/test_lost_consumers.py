"""Consumers that the server ends, and queues that are made anew under their name: played by a link that tells a story."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from millstream.connectors.messaging.received import BrokerMessage
from millstream.connectors.rabbitmq import queue_source, stream_source, stream_tail
from millstream.connectors.rabbitmq.consuming import Consumption
from millstream.connectors.rabbitmq.library import ChannelInvalidStateError
from millstream.contract.source import LostRows, SourceContext
from millstream.errors import ExternalFailure
from millstream.model.schema import schema_of

SCHEMA = schema_of("n long")
OPTIONS = {
    "queue": "q",
    "url": "amqp://host",
    "client": {},
    "prefetch": 10,
    "format": "json",
    "metadata": {},
    "on_data_loss": "skip",
}


def message(number):
    return BrokerMessage(b'{"n": %d}' % number, number, {})


class PlayedLink:
    """Runs work on a loop of its own, without a server."""

    def __init__(self, *_, **__):
        self.closed = False

    def ask(self, work, _, *, seconds=0.0):
        return asyncio.run(awaited(work))

    def close(self):
        self.closed = True


async def awaited(work):
    return await work(None)


class PlayedConsumption:
    """Gives one part after the other; what is an error is raised, and behind the last nothing comes."""

    def __init__(self, *parts):
        self.parts, self.is_closed = list(parts), False

    async def open(self, _):
        pass

    async def take(self, seconds, *, most=0):
        if not self.parts:
            await asyncio.sleep(min(seconds, 0.01))
            return []
        part = self.parts.pop(0)
        if isinstance(part, Exception):
            raise part
        return part

    async def close(self, _=None):
        self.is_closed = True


def lost():
    return ExternalFailure("lost", code="RABBIT-002", hint="x")


def test_a_consumer_that_the_server_ended_is_noticed():
    """Its channel and connection live on; without a look it would wait for ever."""
    under = SimpleNamespace(consumers={})

    async def underlay():
        return under

    consumption = Consumption("q", prefetch=1)
    consumption.channel = SimpleNamespace(is_closed=False, get_underlay_channel=underlay)
    transport = SimpleNamespace(connection=SimpleNamespace(is_closed=False))
    consumption._connection = SimpleNamespace(is_closed=False, transport=transport)
    consumption._consumer = "ctag1"
    under.consumers["ctag1"] = object()
    assert asyncio.run(consumption.take(0.001)) == []
    del under.consumers["ctag1"]
    with pytest.raises(ChannelInvalidStateError):
        asyncio.run(consumption.take(0.001))
    consumption._messages.append(message(1))
    consumption._arrived = asyncio.Event()
    consumption._arrived.set()
    assert asyncio.run(consumption.take(0.001)) == [message(1)], "what came before is good"


def test_what_a_failed_session_held_back_is_given_back(monkeypatch, tmp_path):
    """Else the broker would count it as delivered, to nobody, as long as the connection lives."""
    sessions = [PlayedConsumption([message(1)], lost()), PlayedConsumption([message(1)])]
    opened = iter(sessions)
    monkeypatch.setattr(queue_source, "RabbitLink", PlayedLink)
    monkeypatch.setattr(queue_source, "Consumption", lambda *_, **__: next(opened))
    monkeypatch.setattr(queue_source, "_PAUSE_SECONDS", 0.01)
    context = SourceContext(step="in", schema=SCHEMA, log_dir=tmp_path, parallelism=1)
    source = queue_source.QueueEnumerator({**OPTIONS, "ahead_bytes": 1 << 20}, context)
    try:
        position, until = source.initial(), time.monotonic() + 10
        while position["session"] != "1-2" and time.monotonic() < until:
            position = source.advance(position, 1).position
        assert position["session"] == "1-2"
        assert sessions[0].is_closed
    finally:
        source.close()


def followed(monkeypatch, *sessions):
    opened = iter(sessions)
    monkeypatch.setattr(stream_tail, "StreamConsumption", lambda *_: next(opened))
    monkeypatch.setattr(stream_tail, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(stream_tail, "_SETTLE_SECONDS", 0.3)
    return stream_tail.StreamTail(PlayedLink(), "q")


def test_a_stream_that_was_made_anew_ends_where_it_ends_now(monkeypatch):
    before = PlayedConsumption([message(99)])
    tail = followed(monkeypatch, before, PlayedConsumption([message(0)], [message(4)]))
    try:
        assert tail.end() == 100
        before.parts.append(lost())
        found = []
        for end in ends_bounded(tail):
            found.append(end)
            if end == 5:
                break
        assert found[-1] == 5
        assert before.is_closed
    finally:
        tail.close()


def ends_bounded(tail):
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            yield tail.end()
        except ExternalFailure:
            continue
        time.sleep(0.01)


def test_pieces_of_the_last_messages_are_no_shorter_stream(monkeypatch):
    before = PlayedConsumption([message(99)])
    tail = followed(monkeypatch, before, PlayedConsumption([message(50)], [], [message(99)]))
    try:
        assert tail.end() == 100
        before.parts.append(lost())
        found = set()
        until = time.monotonic() + 0.8
        for end in ends_bounded(tail):
            found.add(end)
            if time.monotonic() > until:
                break
        assert found == {100}
    finally:
        tail.close()
    assert not any(thread.name == "millstream-tail" and thread.is_alive() for thread in threading.enumerate())


def test_what_is_deleted_while_a_reader_connects_anew_is_counted(monkeypatch):
    sessions = iter([PlayedConsumption([message(0), message(1)], lost()), PlayedConsumption([message(5), message(6)])])
    monkeypatch.setattr(stream_source, "RabbitLink", PlayedLink)
    monkeypatch.setattr(stream_source, "StreamConsumption", lambda *_: next(sessions))
    monkeypatch.setattr(stream_source, "first_offset", lambda *_: 5)
    monkeypatch.setattr(stream_source, "_PAUSE_SECONDS", 0.01)
    reader = stream_source.StreamQueueReader(OPTIONS, SCHEMA)
    parts = list(reader.read([0, 7]))
    rows = [row["n"] for part in parts if not isinstance(part, LostRows) for row in part.to_pylist()]
    assert rows == [0, 1, 5, 6]
    assert [part for part in parts if isinstance(part, LostRows)] == [LostRows(3, "data_loss")]
