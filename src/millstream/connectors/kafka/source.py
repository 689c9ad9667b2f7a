"""The driver's side of a Kafka source: where it begins, how far each epoch reads, what is lost, and what monitors are told."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from millstream.connectors.decided import decided_once
from millstream.connectors.kafka.beginnings import named_offsets
from millstream.connectors.kafka.broker import Broker, Topic, patiently, places_of, refuse_strangers
from millstream.connectors.kafka.clients import PATIENCE
from millstream.connectors.kafka.discovery import TopicDiscovery
from millstream.connectors.kafka.group_offsets import GroupOffsets
from millstream.connectors.kafka.losses import Losses
from millstream.connectors.kafka.positions import (
    KafkaPartition,
    KafkaPosition,
    Offsets,
    advanced,
    is_beyond,
    is_complete,
    is_continued,
    read_position,
    splits_between,
    target_of,
)
from millstream.contract.source import Advance, Credit, Position, SourceContext, Split
from millstream.errors import ExternalFailure
from millstream.model.connector import Options
from millstream.model.time import now_ms

_RETRY_MS = 500
_BLOCKED_SECONDS = 1.0
"""How often to ask whether a partition stands still because of an open transaction."""
_SHORT_SECONDS = 5.0
"""For how long a partition must end before the position until that counts as a loss."""
_OPEN_TRANSACTION = "blocked by an open transaction"


class KafkaEnumerator:
    """Plans offsets. Partitions are assigned, never subscribed to: no group decides what a job reads."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._broker = Broker(options, step=context.step)
        self._discovery = TopicDiscovery(options, self._broker, step=context.step)
        self._losses = Losses(options["on_data_loss"], step=context.step)
        self._group = GroupOffsets(options, step=context.step)
        self._initial: Position | None = None
        self._away_since: float | None = None
        self._short_since: float | None = None
        self._is_compared = False
        """Whether the topics of plans were seen to be those that are there."""
        self._blocked: tuple[float, Mapping[str, str]] = (0.0, {})

    # Where it begins.

    def initial(self) -> Position:
        """The offsets that `start` meant when it was first asked, and those of `until`."""
        if self._initial is None:
            self._initial = decided_once(
                self._context.log_dir,
                f"start-{self._context.lineage}",
                lambda: patiently(self._begin, PATIENCE).to_json(),
            )
        return self._initial

    def next_run(self, position: Position) -> Position:
        """Behind the run before, up to what `until` means by now; partitions that came since are read from their first record."""
        if self._options["until"] is None:
            return position
        name, began = f"run-{self._context.lineage}", read_position(position)
        return decided_once(
            self._context.log_dir, name, lambda: patiently(lambda: self._begin_behind(began), PATIENCE).to_json()
        )

    def _begin_behind(self, last: KafkaPosition) -> KafkaPosition:
        topics = self._discovery.topics()
        self._discovery.refuse_missing(topics)
        behind = self._met(dataclasses.replace(last, until=None, skip={}), topics)
        until = self._meant(self._options["until"], behind.at, otherwise=self._broker.ends(behind.at))
        return dataclasses.replace(behind, until=until)

    def _begin(self) -> KafkaPosition:
        topics = self._discovery.topics()
        self._discovery.refuse_missing(topics)
        places = places_of(topics, self._options["partitions"], step=self._context.step)
        for option in ("start", "until"):
            named = named_offsets(self._options[option])
            numbers = {topic: map(int, at) for topic, at in named.items()}
            refuse_strangers(numbers, topics, option=option, step=self._context.step)
        until = None
        if self._options["until"] is not None:
            until = self._meant(self._options["until"], places, otherwise=self._broker.ends(places))
        at = self._meant(self._options["start"], places, otherwise=self._broker.firsts(places))
        begun = KafkaPosition(ids={name: topic.id for name, topic in topics.items()}, at=at, until=until)
        # Before it is decided for good: offsets may be mistaken, and those of a group may be of an earlier topic.
        return self._losses.shortened(begun, self._broker.ends(places, is_stable=False), "ends before start=")

    def _meant(self, word: Any, places: Collection[KafkaPartition], *, otherwise: Offsets) -> dict[KafkaPartition, int]:
        """The offsets that a word, a time or a table of offsets means; partitions it says nothing of are as `otherwise`."""
        match word:
            case "earliest":
                return self._broker.firsts(places)
            case "latest":
                return self._broker.ends(places)
            case "group":
                return {**otherwise, **self._broker.of_group(self._options["group"], places)}
            case {"time": instant}:
                return self._broker.since(places, instant)
            case _:
                given = named_offsets(word)
                named = {place: given.get(place.topic, {}).get(str(place.partition)) for place in places}
                return {**otherwise, **{place: offset for place, offset in named.items() if offset is not None}}

    # How far an epoch reads.

    def advance(self, start: Position, credit: Credit) -> Advance:
        """As far as the credit goes, over all partitions."""
        return self.advance_without(start, credit, ())

    def advance_without(self, start: Position, credit: Credit, paused: Collection[str]) -> Advance:
        """The same without some partitions. While the brokers are away nothing is read, and they are asked again."""
        position = dataclasses.replace(read_position(start), skip={})
        try:
            found = self._planned(position, credit, paused)
        except ExternalFailure as problem:
            return self._waits(start, position, problem)
        self._away_since = None
        return found

    def _waits(self, start: Position, position: KafkaPosition, problem: ExternalFailure) -> Advance:
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since > PATIENCE or problem.code == "KAFKA-005":
            raise problem
        names = [place.name for place in position.at]
        return Advance(
            position=start,
            finished=is_complete(position),
            not_before=now_ms() + _RETRY_MS,
            partitions=names,
            drained=(),
            blocked=dict.fromkeys(names, f"the brokers are away: {problem.found}"),
        )

    def _planned(self, position: KafkaPosition, credit: int, paused: Collection[str]) -> Advance:
        began, topics = position, self._discovery.due(position)
        if topics is not None:
            position, self._is_compared = self._met(position, topics), True
        ends = self._broker.ends(position.at)
        if is_beyond(position, ends):
            position = self._shorter(position, ends)
            ends = self._broker.ends(position.at)
        else:
            self._short_since = None
        # What was found now has no beginning in the plan before this one: it is read from the next epoch on.
        found = [place.name for place in position.at if not is_continued(place, began, position)]
        skip, dropped = self._losses.checked(position, self._broker.firsts(position.at))
        targets = target_of(position, ends)
        end = advanced(position, targets, credit, {*paused, *found}, skip if credit > 0 else {})
        return self._told(position, end, targets, ends, dropped if credit > 0 else {})

    def _shorter(self, position: KafkaPosition, ends: Offsets) -> KafkaPosition:
        """Partitions end before the position: most likely another topic has the name. Else records are lost, if it stays so."""
        position = self._met(position, self._discovery.looked(position))
        self._short_since = self._short_since or time.monotonic()
        if self._is_in_doubt() or not is_beyond(position, ends):
            return position
        return self._losses.shortened(position, self._broker.ends(position.at, is_stable=False))

    def _is_in_doubt(self) -> bool:
        """Whether a partition ends before the position, and not for long enough to count as a loss."""
        return self._short_since is not None and time.monotonic() - self._short_since < _SHORT_SECONDS

    def _met(self, position: KafkaPosition, topics: Mapping[str, Topic]) -> KafkaPosition:
        """The position with partitions that were found now; they are read from the next epoch on, from their first record."""
        position = self._losses.of_topics(position, topics, self._broker.firsts)
        places = places_of(topics, self._options["partitions"], step=self._context.step)
        new = [place for place in places if place not in position.at]
        if not new or position.until is not None:
            return position
        ids = {**position.ids, **{name: topic.id for name, topic in topics.items()}}
        return dataclasses.replace(position, ids=ids, at={**position.at, **self._broker.firsts(new)})

    def _told(
        self, start: KafkaPosition, end: KafkaPosition, targets: Offsets, ends: Offsets, dropped: Mapping[str, int]
    ) -> Advance:
        waiting = {place.name: max(0, targets[place] - offset) for place, offset in end.at.items() if place in targets}
        moved = {place for place, offset in start.at.items() if end.at[place] != offset}
        drained = [place.name for place in end.at if place not in moved and not waiting.get(place.name)]
        return Advance(
            position=end.to_json(),
            # What begins behind the end of a partition has nothing to read, and is no end: it is a loss, if it stays so.
            finished=is_complete(end) and not self._is_in_doubt(),
            lag=sum(waiting.values()),
            lags=waiting,
            partitions=[place.name for place in end.at],
            drained=drained,
            blocked=self._standing(drained, ends),
            dropped=dropped,
        )

    def _standing(self, drained: Collection[str], ends: Offsets) -> Mapping[str, str]:
        """Partitions whose records wait for a transaction to end: nothing is wrong, but somebody will ask."""
        asked, known = self._blocked
        if self._options["isolation"] != "read_committed" or not drained:
            return {}
        if time.monotonic() - asked >= _BLOCKED_SECONDS:
            marks = self._broker.ends(ends, is_stable=False)
            known = {place.name: _OPEN_TRANSACTION for place, mark in marks.items() if mark > ends[place]}
            self._blocked = (time.monotonic(), known)
        return {name: why for name, why in known.items() if name in drained}

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """Ranges of offsets; a long one is shared by several tasks."""
        planned = read_position(end)
        if not self._is_compared:
            # The plan is one of an earlier run: by now its topics may be others.
            topics = patiently(lambda: self._broker.topics(planned.ids), PATIENCE)
            lost = self._losses.replaced(planned, topics)
            kept = {place: offset for place, offset in planned.at.items() if place.topic not in lost}
            planned = dataclasses.replace(planned, at=kept)
        return splits_between(read_position(start), planned, self._context.parallelism)

    def acknowledge(self, position: Position) -> None:
        """Tell the group how far output is published, if there is one."""
        self._group.commit(read_position(position))

    def close(self) -> None:
        """Let go of the clients."""
        self._group.close()
