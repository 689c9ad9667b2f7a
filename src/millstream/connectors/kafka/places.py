"""The topics and partitions that rows name, looked up before their epoch is durable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from millstream.connectors.kafka.clients import open_admin
from millstream.connectors.kafka.library import KafkaError, KafkaException
from millstream.errors import StepFailed

_ASK_SECONDS = 5.0


def missing_topic(topic: str, *, step: str) -> StepFailed:
    """The error for a topic that a row names and nobody has created."""
    msg = "a row names a topic that does not exist"
    return StepFailed(msg, code="KAFKA-021", step=step, found=topic, hint="create it, or correct the row")


def missing_partition(topic: str, partition: int, count: int, *, step: str) -> StepFailed:
    """The error for a partition that a row names and its topic has not."""
    msg = "a row names a partition that does not exist"
    found = f"partition {partition} of topic {topic!r} (_UNKNOWN_PARTITION)"
    known = f"{count} partitions, counted from 0"
    hint = "add partitions to the topic, or correct the row"
    return StepFailed(msg, code="KAFKA-021", step=step, found=found, known=known, hint=hint)


class KnownPlaces:
    """Asks the brokers for each topic once, and again when a row names more than it had."""

    def __init__(self, config: Mapping[str, Any], topic: str | None, *, step: str) -> None:
        """`topic` is meant where a row names none."""
        self._config, self._topic, self._step = config, topic, step
        self._counts: dict[str, int] = {}

    def check(self, places: Iterable[tuple[str | None, int]]) -> None:
        """Refuse topics and partitions that are not there. Brokers that do not answer are for those who send.

        Raises:
            StepFailed: (KAFKA-021) one is not there.
        """
        largest: dict[str, int] = {}
        for named, partition in places:
            topic = self._topic if named is None else named
            assert topic is not None, "a sink without a column of topics has a topic"
            largest[topic] = max(partition, largest.get(topic, -1))
        unknown = {topic: number for topic, number in largest.items() if number >= self._counts.get(topic, -1)}
        if unknown:
            self._look_up(unknown)

    def _look_up(self, wanted: Mapping[str, int]) -> None:
        admin = open_admin(self._config, step=self._step)
        for topic, partition in wanted.items():
            try:
                found = admin.list_topics(topic, timeout=_ASK_SECONDS).topics[topic]
            except KafkaException:
                return
            if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise missing_topic(topic, step=self._step)
            if found.error is None:
                self._counts[topic] = len(found.partitions)
                if partition >= len(found.partitions):
                    raise missing_partition(topic, partition, len(found.partitions), step=self._step)
