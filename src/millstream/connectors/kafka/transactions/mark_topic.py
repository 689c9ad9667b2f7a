"""The topic that holds the marks of one sink: made, checked and read."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from millstream.connectors.kafka.clients import ClientErrors, error_of, is_refusal, open_admin, open_consumer
from millstream.connectors.kafka.library import (
    AdminClient,
    ConfigResource,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    NewTopic,
    TopicCollection,
    TopicDescription,
    TopicPartition,
)
from millstream.connectors.kafka.transactions.marks import Mark, Record, decoded_record, marks_of
from millstream.connectors.kafka.transactions.questions import (
    ASK_SECONDS,
    answer,
    create_topic,
    patiently_asked,
    polled,
)
from millstream.errors import CheckpointRefused

T = TypeVar("T")

_READ_SECONDS = 15.0
_POLL_SECONDS = 0.02
# All but the newest mark of a lineage are of no use, and whoever takes over reads them: small segments are cleaned soon.
_SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.2"}


@dataclasses.dataclass(frozen=True, slots=True)
class MarksRead:
    """The marks of all lineages that readers can see, and what they cannot see yet."""

    marks: Mapping[str, Mark]
    undecided: frozenset[str] = frozenset()
    """Lineages with a mark behind a transaction that is still open."""
    writers: frozenset[str] = frozenset()
    """Lineages whose transactions wrote those."""


class MarkTopic:
    """The marks of one sink, for whoever may read them."""

    def __init__(self, config: Mapping[str, Any], name: str, *, step: str) -> None:
        self._config, self.name, self._step = config, name, step

    def is_there(self) -> bool:
        """Whether any owner came here before."""
        return self._asked(lambda admin: _described(admin, self.name) is not None)

    def made(self) -> str:
        """The id of the topic, which is created when it is missing."""
        return self._asked(self._checked)

    def _asked(self, ask: Callable[[AdminClient], T]) -> T:
        errors = ClientErrors()
        admin = open_admin(self._config, step=self._step, errors=errors)
        doing = f"the mark topic {self.name!r} cannot be looked up"

        def attempt() -> T:
            with polled(admin):
                return ask(admin)

        return patiently_asked(attempt, doing, errors, step=self._step)

    def _checked(self, admin: AdminClient) -> str:
        described = _described(admin, self.name)
        if described is None:
            create_topic(admin, NewTopic(self.name, num_partitions=1, replication_factor=-1, config=_SETTINGS))
            # It is told of a moment later.
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        found = {"partitions": str(len(described.partitions)), "cleanup.policy": _policy(admin, self.name)}
        if found != {"partitions": "1", "cleanup.policy": "compact"}:
            raise self._unfit(found)
        return str(described.topic_id)

    def _unfit(self, found: Mapping[str, str]) -> CheckpointRefused:
        msg = f"the topic {self.name!r} cannot hold marks"
        known = "one partition, cleanup.policy=compact"
        hint = "alter the topic, or pass another prefix= if it is not one of ours"
        return CheckpointRefused(msg, code="KAFKA-024", step=self._step, found=found, known=known, hint=hint)

    def read(self) -> MarksRead:
        """The marks as they are now."""
        errors = ClientErrors()
        doing = f"the marks in topic {self.name!r} cannot be read"
        return patiently_asked(lambda: self._read(errors), doing, errors, step=self._step)

    def _read(self, errors: ClientErrors) -> MarksRead:
        visible, end, high = self._messages("read_committed", 0, errors)
        marks = marks_of(self._records(visible))
        if end >= high:
            return MarksRead(marks)
        waiting = self._records(self._messages("read_uncommitted", end, errors)[0])
        lineages, writers = (record.lineage for record in waiting), (record.by for record in waiting)
        return MarksRead(marks, frozenset(lineages), frozenset(writers))

    def _messages(self, isolation: str, start: int, errors: ClientErrors) -> tuple[list[Message], int, int]:
        """All messages from an offset on, where there is nothing more to see, and where the partition ends."""
        config = {
            **self._config,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
        consumer = open_consumer(config, step=self._step, errors=errors)
        partition = TopicPartition(self.name, 0)
        with contextlib.closing(consumer), polled(consumer):
            low, _ = consumer.get_watermark_offsets(partition, timeout=ASK_SECONDS)
            consumer.assign([TopicPartition(self.name, 0, max(low, start))])
            messages, end = _until_the_end(consumer, self.name)
            _, high = consumer.get_watermark_offsets(partition, cached=True)
        return messages, end, high

    def _records(self, messages: Sequence[Message]) -> list[Record]:
        """The newest message of each key, in the order of offsets."""
        newest = {message.key(): message for message in messages}
        return [self._record(each) for each in messages if newest[each.key()] is each]

    def _record(self, message: Message) -> Record:
        try:
            return decoded_record(message.value() or b"")
        except (ValueError, KeyError) as problem:
            msg = f"the topic {self.name!r} holds something else than marks"
            found = f"offset {message.offset()}: {problem}"
            hint = "nothing but this job may write there; start a newer release if it wrote the mark"
            raise CheckpointRefused(msg, code="KAFKA-024", step=self._step, found=found, hint=hint) from None


def _until_the_end(consumer: Consumer, topic: str) -> tuple[list[Message], int]:
    found = []
    until = time.monotonic() + _READ_SECONDS
    while time.monotonic() < until:
        for message in consumer.consume(1000, timeout=_POLL_SECONDS):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return found, message.offset() or 0
            else:
                raise KafkaException(error)
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no end of {topic!r} in {_READ_SECONDS:.0f} s"))


def _described(admin: AdminClient, topic: str) -> TopicDescription | None:
    asked = admin.describe_topics(TopicCollection([topic]), request_timeout=ASK_SECONDS)
    try:
        described: TopicDescription = answer(asked[topic])
    except KafkaException as problem:
        if error_of(problem).code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise
    return described


def _policy(admin: AdminClient, topic: str) -> str:
    """How old messages are removed; where we may not ask, as we created it."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        settings = answer(admin.describe_configs([resource], request_timeout=ASK_SECONDS)[resource])
    except KafkaException as problem:
        if is_refusal(error_of(problem)):
            return _SETTINGS["cleanup.policy"]
        raise
    return str(settings["cleanup.policy"].value)
