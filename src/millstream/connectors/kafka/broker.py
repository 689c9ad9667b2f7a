"""Questions to the brokers: which topics and partitions there are, and where they begin and end."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from millstream.connectors.kafka.client_options import client_config
from millstream.connectors.kafka.clients import ClientErrors, error_of, failure, open_admin
from millstream.connectors.kafka.library import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    OffsetSpec,
    TopicCollection,
    TopicPartition,
)
from millstream.connectors.kafka.positions import KafkaPartition
from millstream.errors import ExternalFailure, InvalidStep
from millstream.model.connector import Options

_REQUEST_SECONDS = 1.0
"""How long one question may take. It is asked again; meanwhile nothing else of the job may stand still."""
_PAUSE_SECONDS = 0.05
_MISSING_SECONDS = 5.0
"""For how long a topic may be missing: brokers that answer know of it soon after it was made."""

_EARLIEST, _LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
_MOVED = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
Answer = TypeVar("Answer")


class Topic(NamedTuple):
    """A topic as it is now."""

    id: str
    partitions: tuple[int, ...]


class Broker:
    """One client for questions. Every call raises `ExternalFailure` when the answer does not come."""

    def __init__(self, options: Options, *, step: str) -> None:
        self._step, self._errors = step, ClientErrors()
        self._committed = options["isolation"] == "read_committed"
        self._admin = open_admin(client_config(options, step=step), step=step, errors=self._errors)

    def names(self, pattern: str) -> list[str]:
        """The topics whose whole name fits a pattern; those of Kafka itself do not."""
        listed = self._asked("the topics cannot be listed", lambda: self._admin.list_topics(timeout=_REQUEST_SECONDS))
        return sorted(name for name in listed.topics if re.fullmatch(pattern, name) and not name.startswith("__"))

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """The topics of these names that exist."""
        if not names:
            return {}
        self._admin.poll(0)
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=_REQUEST_SECONDS)
        found = {}
        for name, future in futures.items():
            try:
                described = future.result()
            except KafkaException as problem:
                if error_of(problem).name() == "UNKNOWN_TOPIC_OR_PART":
                    continue
                doing = f"topic {name!r} cannot be described"
                raise self._failure(doing, problem) from None
            found[name] = Topic(str(described.topic_id), tuple(sorted(part.id for part in described.partitions)))
        return found

    def firsts(self, places: Iterable[KafkaPartition]) -> dict[KafkaPartition, int]:
        """The first offset that is there, of each partition."""
        return self._offsets(dict.fromkeys(places, _EARLIEST))

    def ends(self, places: Iterable[KafkaPartition], *, is_stable: bool | None = None) -> dict[KafkaPartition, int]:
        """The offset behind the last record: the last that is decided, unless what is open is wanted too."""
        stable = self._committed if is_stable is None else is_stable
        return self._offsets(dict.fromkeys(places, _LATEST), is_stable=stable)

    def since(self, places: Collection[KafkaPartition], time_ms: int) -> dict[KafkaPartition, int]:
        """The first offset of each partition that is not older than a time; its end where there is none."""
        found = self._offsets(dict.fromkeys(places, OffsetSpec.for_timestamp(time_ms)))
        missing = [place for place, offset in found.items() if offset < 0]
        return {**found, **(self.ends(missing) if missing else {})}

    def of_group(self, group: str, places: Collection[KafkaPartition]) -> dict[KafkaPartition, int]:
        """The offsets that a group has committed; partitions without one are left out."""
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*place) for place in places])
        futures = self._admin.list_consumer_group_offsets([wanted], request_timeout=_REQUEST_SECONDS)
        doing = f"the offsets of group {group!r} cannot be read"
        answer = self._asked(doing, futures[group].result)
        found = {
            KafkaPartition(each.topic, each.partition): each.offset
            for each in answer.topic_partitions
            if not each.error
        }
        return {place: offset for place, offset in found.items() if offset >= 0}

    def _offsets(self, wanted: Mapping[KafkaPartition, Any], *, is_stable: bool = False) -> dict[KafkaPartition, int]:
        if not wanted:
            return {}
        self._admin.poll(0)
        level = IsolationLevel.READ_COMMITTED if is_stable else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(*place): spec for place, spec in wanted.items()}
        futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=_REQUEST_SECONDS)
        offsets = {}
        for partition, future in futures.items():
            place = KafkaPartition(partition.topic, partition.partition)
            offsets[place] = self._asked(f"offsets of {place.name} cannot be read", future.result).offset
        return offsets

    def _asked(self, doing: str, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except KafkaException as problem:
            raise self._failure(doing, problem) from None

    def _failure(self, doing: str, problem: KafkaException) -> Exception:
        self._admin.poll(0)
        if error_of(problem).code() in _MOVED:
            # The client goes on asking the leader it knows until it sees all topics anew.
            with contextlib.suppress(KafkaException):
                self._admin.list_topics(timeout=_REQUEST_SECONDS)
        return failure(doing, error_of(problem), self._errors, step=self._step)


def patiently(ask: Callable[[], Answer], seconds: float) -> Answer:
    """Ask again while the brokers are away, or elect leaders: a topic has none for a moment after it was made."""
    until = time.monotonic() + seconds
    missing_since: float | None = None
    while True:
        try:
            return ask()
        except ExternalFailure as problem:
            now = time.monotonic()
            missing_since = (missing_since or now) if problem.code == "KAFKA-011" else None
            is_missing = missing_since is not None and now - missing_since > _MISSING_SECONDS
            if now > until or is_missing or problem.code == "KAFKA-005":
                raise
            time.sleep(_PAUSE_SECONDS)


def places_of(topics: Mapping[str, Topic], wanted: Mapping[str, Collection[int]], *, step: str) -> list[KafkaPartition]:
    """All partitions that are read; `wanted` names single ones of some topics."""
    refuse_strangers({name: wanted[name] for name in topics if name in wanted}, topics, option="partitions", step=step)
    return sorted(
        KafkaPartition(name, number) for name, topic in topics.items() for number in wanted.get(name, topic.partitions)
    )


def refuse_strangers(
    named: Mapping[str, Iterable[int]], topics: Mapping[str, Topic], *, option: str, step: str
) -> None:
    """Partitions that an option names must be there."""
    for name, numbers in named.items():
        known = topics[name].partitions if name in topics else ()
        for number in numbers:
            if number not in known:
                msg = f"topic {name!r} has no partition {number}"
                raise InvalidStep(msg, code="KAFKA-012", step=step, known=known, hint=f"correct {option}=")
