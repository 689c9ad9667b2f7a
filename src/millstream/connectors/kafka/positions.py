"""Positions of a Kafka source as values: which topics, how far in each partition, and what follows from offsets seen outside.

Offsets are addresses, never counts: control records of transactions and compaction leave gaps. A position holds the next
offset to read of each partition, the ids of the topics, the frozen ends of a bounded source, and `skip`: offsets that the epoch
which ends there jumps to because records before them are gone.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from millstream.contract.source import Position, Split

_SMALLEST_CUT = 2_000
"""A partition is cut over several tasks only where each of them gets at least that many offsets."""


class KafkaPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    @property
    def name(self) -> str:
        """How plans and people call it."""
        return f"{self.topic}/{self.partition}"


Offsets = Mapping[KafkaPartition, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPosition:
    """A position, read."""

    ids: Mapping[str, str]
    """Of the topics: another id is another topic of the same name."""
    at: Offsets
    until: Offsets | None = None
    skip: Offsets = dataclasses.field(default_factory=dict)

    def to_json(self) -> Position:
        """As it stands in plans."""
        content: dict[str, Any] = {
            "topics": {topic: {"id": id_, "at": of_topic(self.at, topic)} for topic, id_ in sorted(self.ids.items())}
        }
        for name, offsets in (("until", self.until), ("skip", self.skip or None)):
            if offsets is not None:
                topics = sorted({place.topic for place in offsets})
                content[name] = {topic: of_topic(offsets, topic) for topic in topics}
        return content


def of_topic(offsets: Offsets, topic: str) -> dict[str, int]:
    """The offsets of one topic, by partition."""
    return {str(place.partition): offset for place, offset in sorted(offsets.items()) if place.topic == topic}


def read_position(content: Position) -> KafkaPosition:
    """A position from a plan."""
    topics = content["topics"]
    return KafkaPosition(
        ids={topic: entry["id"] for topic, entry in topics.items()},
        at=_by_place({topic: entry["at"] for topic, entry in topics.items()}),
        until=_by_place(content["until"]) if "until" in content else None,
        skip=_by_place(content.get("skip", {})),
    )


def _by_place(topics: Mapping[str, Mapping[str, int]]) -> dict[KafkaPartition, int]:
    return {KafkaPartition(topic, int(number)): offset for topic, at in topics.items() for number, offset in at.items()}


def ranges(start: KafkaPosition, end: KafkaPosition) -> Iterator[tuple[KafkaPartition, int, int]]:
    """What an epoch reads: (partition, first offset, offset behind the last), in a fixed order.

    A partition that was found in this epoch is not read before the next one: where it begins stands in `end` alone.
    """
    for place in sorted(end.at):
        if is_continued(place, start, end):
            first = max(start.at[place], end.skip.get(place, 0))
            if first < end.at[place]:
                yield place, first, end.at[place]


def is_continued(place: KafkaPartition, start: KafkaPosition, end: KafkaPosition) -> bool:
    """Whether a partition is the same one in both positions."""
    return place in start.at and start.ids.get(place.topic) == end.ids.get(place.topic)


def splits_between(start: KafkaPosition, end: KafkaPosition, parallelism: int) -> list[Split]:
    """The ranges of an epoch, long ones cut so that every task gets about the same."""
    whole = list(ranges(start, end))
    share = max(_SMALLEST_CUT, -(-sum(last - first for _, first, last in whole) // max(1, parallelism)))
    splits: list[Split] = []
    for place, first, last in whole:
        pieces = max(1, round((last - first) / share))
        cuts = [first + (last - first) * piece // pieces for piece in range(pieces + 1)]
        splits += [
            Split(place.name, [place.topic, place.partition, low, high], high - low)
            for low, high in itertools.pairwise(cuts)
        ]
    return splits


def shared(credit: int, backlog: Offsets) -> dict[KafkaPartition, int]:
    """A credit over partitions: a floor for each that has something, the rest by what waits there.

    The floor keeps a small partition moving beside a huge one; without it, its event times would hold the watermark.
    """
    waiting = {place: rows for place, rows in backlog.items() if rows > 0}
    if not waiting or credit <= 0:
        return {}
    floor = max(1, credit // (2 * len(waiting)))
    given = {place: min(rows, floor) for place, rows in waiting.items()}
    left = credit - sum(given.values())
    more = {place: rows - given[place] for place, rows in waiting.items()}
    total = sum(more.values())
    if left <= 0 or total == 0:
        return given
    left = min(left, total)
    added = {place: left * rows // total for place, rows in more.items()}
    # What rounding leaves over goes to those it cut most.
    cut = sorted(more, key=lambda place: (-(left * more[place] % total), place))
    for place in cut[: left - sum(added.values())]:
        added[place] += 1
    return {place: given[place] + added[place] for place in given}


class Loss(NamedTuple):
    """Records that are gone before they were read."""

    place: KafkaPartition
    expected: int
    first: int
    """The first offset that is there."""


def losses(position: KafkaPosition, firsts: Offsets) -> list[Loss]:
    """Partitions whose next record is gone: only what stands before the first offset is lost, whatever gaps there are."""
    return [
        Loss(place, offset, firsts[place])
        for place, offset in sorted(position.at.items())
        if place in firsts and offset < firsts[place] and not _is_at_end(position, place)
    ]


def _is_at_end(position: KafkaPosition, place: KafkaPartition) -> bool:
    return position.until is not None and position.at[place] >= position.until.get(place, 0)


def target_of(position: KafkaPosition, ends: Offsets) -> dict[KafkaPartition, int]:
    """How far each partition could be read now: to its end, or to the frozen one."""
    limits = position.until
    return {
        place: end if limits is None else min(end, limits.get(place, 0))
        for place, end in ends.items()
        if place in position.at
    }


def advanced(
    position: KafkaPosition, targets: Offsets, credit: int, paused: Collection[str], skip: Offsets
) -> KafkaPosition:
    """The position behind an epoch with that credit; `skip` jumps over what is lost."""
    begun = {place: max(offset, skip.get(place, 0)) for place, offset in position.at.items()}
    backlog = {
        place: targets[place] - offset
        for place, offset in begun.items()
        if place in targets and place.name not in paused
    }
    given = shared(credit, backlog)
    return dataclasses.replace(
        position, at={place: offset + given.get(place, 0) for place, offset in begun.items()}, skip=dict(skip)
    )


def is_beyond(position: KafkaPosition, ends: Offsets) -> bool:
    """Whether a partition ends before it was read to."""
    return any(offset > ends.get(place, offset) for place, offset in position.at.items())


def is_complete(position: KafkaPosition) -> bool:
    """Whether a bounded source has reached its end everywhere."""
    return position.until is not None and all(
        position.at.get(place, end) >= end for place, end in position.until.items()
    )
