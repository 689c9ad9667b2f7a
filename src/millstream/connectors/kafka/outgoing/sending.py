"""Hands messages to a producer, no more at once than memory is meant for, and waits until all have arrived."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.kafka.clients import PATIENCE
from millstream.connectors.kafka.library import KafkaError, KafkaException, Producer
from millstream.connectors.kafka.places import missing_topic

_ROWS_AT_ONCE = 10_000
_BYTES_AT_ONCE = 8 << 20
_BYTES_WAITING = 64 << 20
_ROWS_WAITING = 100_000
_ASK_SECONDS = 10.0
_POLL_SECONDS = 0.2


class MessageSender:
    """Sends through a producer that somebody else opened and will close."""

    def __init__(self, client: Producer, heartbeat: Callable[[], None], *, step: str) -> None:
        self._client, self._heartbeat, self._step = client, heartbeat, step
        self._waiting: deque[tuple[int, int]] = deque()
        """Messages and bytes of the pieces that may not have arrived yet, oldest first."""
        self._partitions: dict[str, int] = {}

    def send(self, messages: pa.RecordBatch, topic: str | None) -> None:
        """Hand over messages, of which each names its topic or all go to one.

        Raises:
            KafkaException: the producer takes no more.
        """
        for piece in _pieces(messages):
            self._make_room(piece.nbytes)
            for name, part in _by_topic(piece, topic):
                self._produce(name, part)
            self._waiting.append((piece.num_rows, piece.nbytes))

    def put(self, topic: str, key: bytes, value: bytes) -> None:
        """Hand over one message."""
        self._client.produce(topic, value, key)

    def drain(self) -> None:
        """Wait until nothing waits any more; whether all arrived is for the commit, or the delivery reports, to say.

        Raises:
            KafkaException: nothing arrived for as long as patience lasts.
        """
        until, left = time.monotonic() + PATIENCE, len(self._client)
        while left:
            self._heartbeat()
            now = self._client.flush(_POLL_SECONDS)
            if now < left:
                until, left = time.monotonic() + PATIENCE, now
            elif time.monotonic() > until:
                text = f"{left} messages have not arrived in {PATIENCE:.0f} s"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, text))

    def _make_room(self, size: int) -> None:
        """Wait until the pieces that may not have arrived yet leave room for one more."""
        until, seen = time.monotonic() + PATIENCE, len(self._client)
        self._client.poll(0)
        while not self._has_room(size):
            self._heartbeat()
            self._client.poll(_POLL_SECONDS)
            if len(self._client) < seen:
                until, seen = time.monotonic() + PATIENCE, len(self._client)
            elif time.monotonic() > until:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"nothing arrived in {PATIENCE:.0f} s"))

    def _has_room(self, size: int) -> bool:
        left = len(self._client)
        while self._waiting and left <= sum(rows for rows, _ in self._waiting) - self._waiting[0][0]:
            self._waiting.popleft()
        is_small = sum(each for _, each in self._waiting) + size <= _BYTES_WAITING
        return not self._waiting or (is_small and left <= _ROWS_WAITING)

    def _produce(self, topic: str, messages: pa.RecordBatch) -> None:
        columns = {
            name: column.to_pylist() for name, column in zip(messages.schema.names, messages.columns, strict=True)
        }
        count = self._count(topic)
        partitions = columns.get("partition") or repeat(-1)
        if "spread" in columns:
            partitions = [number % count for number in columns["spread"]]
        produce, nobody = self._client.produce, None
        values, keys = columns["value"], columns.get("key") or repeat(None)
        times, headers = columns.get("timestamp") or repeat(0), columns.get("headers") or repeat(None)
        try:
            for value, key, partition, at, some in zip(values, keys, partitions, times, headers, strict=False):
                produce(topic, value, key, partition, nobody, nobody, at, some or None)
        except BufferError:
            raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from None

    def _count(self, topic: str) -> int:
        """How many partitions a topic has, asked once."""
        if topic not in self._partitions:
            found = self._client.list_topics(topic, timeout=_ASK_SECONDS).topics[topic]
            if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise missing_topic(topic, step=self._step)
            if found.error is not None:
                raise KafkaException(found.error)
            self._partitions[topic] = len(found.partitions)
        return self._partitions[topic]


def _pieces(messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Pieces that are small enough, by rows and on average by bytes."""
    if not messages.num_rows:
        return
    by_bytes = max(1, messages.num_rows * _BYTES_AT_ONCE // max(1, messages.nbytes))
    size = min(_ROWS_AT_ONCE, by_bytes)
    for start in range(0, messages.num_rows, size):
        yield messages.slice(start, size)


def _by_topic(messages: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The messages of each topic in their order."""
    if "topic" not in messages.schema.names:
        assert topic is not None, "a sink without a column of topics has a topic"
        yield topic, messages
        return
    names: Any = messages.column("topic")
    for name in names.unique().to_pylist():
        yield name, messages.filter(pc.equal(names, name)).drop_columns(["topic"])
