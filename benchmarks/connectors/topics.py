"""Topics of orders: filled with the same rows for every side, and read back as rows that can be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from confluent_kafka import Producer
from tests.servers.kafka import KafkaServer

PARTITIONS = 4
USERS = 1_000
SCHEMA = "id long, user string, amount double, at long, city string"
ROWS_PER_MS = 10
"""Of event time."""
END = "end"
"""The user of a last row, far in the future: Structured Streaming closes its last windows when it sees it."""
_CITIES = ("Amsterdam", "Berlin", "Copenhagen", "Dublin", "Edinburgh", "Florence", "Geneva")
_AT_ONCE = 20_000


def order(number: int) -> bytes:
    """One row as json, of about 100 bytes."""
    at = number // ROWS_PER_MS
    return (
        b'{"id": %d, "user": "user-%04d", "amount": %d.%02d, "at": %d, "city": "%s"}'
        % (number, number * 7919 % USERS, number % 500, number % 97, at, _CITIES[number % 7].encode())
    )  # fmt: skip


def far_order(at: int) -> bytes:
    """The last row."""
    return b'{"id": -1, "user": "%s", "amount": 0.0, "at": %d, "city": ""}' % (END.encode(), at)


def filled(broker: KafkaServer, rows: int, *, ended: bool = False) -> str:
    """A new topic with so many orders, spread evenly, in the order of time in each partition."""
    topic = broker.topic(PARTITIONS, name="orders")
    sent = ((number % PARTITIONS, order(number)) for number in range(rows))
    send(broker, topic, sent)
    if ended:
        send(broker, topic, [(0, far_order(rows // ROWS_PER_MS + 3_600_000))])
    return topic


def send(broker: KafkaServer, topic: str, messages: Iterable[tuple[int, bytes]]) -> None:
    """Send values to partitions; all have arrived when it returns."""
    failures: list[Any] = []
    config = {"bootstrap.servers": broker.servers, "compression.type": "lz4", "linger.ms": 20, "batch.size": 1 << 20}
    producer = Producer({**config, "queue.buffering.max.messages": 2_000_000})
    for count, (partition, value) in enumerate(messages):
        producer.produce(topic, value, partition=partition, on_delivery=_noted(failures) if count == 0 else None)
        if count % _AT_ONCE == 0:
            producer.poll(0)
            while len(producer) > 500_000:
                producer.poll(0.1)
    left = producer.flush(120)
    if left or failures:
        msg = f"{left} messages did not arrive: {failures[:1]}"
        raise RuntimeError(msg)


def _noted(failures: list[Any]) -> Callable[[Any, Any], None]:
    return lambda error, _: failures.append(error) if error else None


def objects(broker: KafkaServer, topic: str) -> Iterator[dict[str, Any]]:
    """All messages that a committed reader sees, decoded."""
    return (json.loads(message.value()) for message in broker.read(topic))


def digest(rows: Iterable[tuple[Any, ...]]) -> tuple[int, str]:
    """The number of rows, and one text for all of them as a multiset."""
    count, summed = 0, 0
    for row in rows:
        count += 1
        summed += int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest())
    return count, f"{summed:x}"
