"""Records that are gone before they were read: only what certainly is counts, and the user says what becomes of it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping

from millstream.connectors.kafka.broker import Topic
from millstream.connectors.kafka.positions import KafkaPartition, KafkaPosition, Offsets, losses
from millstream.errors import StepFailed

DATA_LOSS = "data_loss"
_log = logging.getLogger(__name__)


class Losses:
    """Applies `on_data_loss`. A broker that does not answer is no loss, and neither is a gap between offsets."""

    def __init__(self, policy: str, *, step: str) -> None:
        self._skips, self._step = policy == "skip", step

    def checked(self, position: KafkaPosition, firsts: Offsets) -> tuple[dict[KafkaPartition, int], dict[str, int]]:
        """Offsets to jump to, and how many rows that drops, by reason."""
        lost = losses(position, firsts)
        for loss in lost:
            self._told(
                f"records of {loss.place.name} were deleted before they were read",
                f"offsets {loss.expected} to {loss.first - 1}",
            )
        skipped = {loss.place: loss.first for loss in lost}
        return skipped, {DATA_LOSS: sum(loss.first - loss.expected for loss in lost)} if lost else {}

    def shortened(
        self, position: KafkaPosition, marks: Offsets, why: str = "is shorter than what was read of it"
    ) -> KafkaPosition:
        """The position where partitions end before it: at their ends. What comes there now is not what was read."""
        short = {place: marks[place] for place, offset in position.at.items() if offset > marks.get(place, offset)}
        for place, end in short.items():
            self._told(f"{place.name} {why}", f"offset {position.at[place]}, and the end is {end}")
        return dataclasses.replace(position, at={**position.at, **short})

    def replaced(self, position: KafkaPosition, topics: Mapping[str, Topic]) -> set[str]:
        """Topics that are not those a plan was made for."""
        gone = {place.topic for place in position.at if not _is_there(place, position, topics)}
        for topic in sorted(gone):
            self._told(f"topic {topic!r} is not the one that a plan was made for", "deleted, or made anew")
        return gone

    def of_topics(
        self,
        position: KafkaPosition,
        topics: Mapping[str, Topic],
        firsts: Callable[[Iterable[KafkaPartition]], Offsets],
    ) -> KafkaPosition:
        """The position where topics were deleted, made anew or lost partitions: what is there now, from its beginning."""
        gone = [place for place in position.at if not _is_there(place, position, topics)]
        if not gone:
            return position
        for topic in sorted({place.topic for place in gone}):
            found = "deleted" if topic not in topics else "another topic of this name, or fewer partitions"
            self._told(f"topic {topic!r} is not the one that was read", found)
        anew = [p for p in gone if p.topic in topics and p.partition in topics[p.topic].partitions]
        kept = {place: offset for place, offset in position.at.items() if place not in gone}
        ids = {name: topics[name].id for name in position.ids if name in topics}
        until = None if position.until is None else {p: o for p, o in position.until.items() if p not in gone}
        return dataclasses.replace(position, ids=ids, at={**kept, **firsts(anew)}, until=until)

    def _told(self, msg: str, found: str) -> None:
        if not self._skips:
            hint = (
                "start from what is there with on_data_loss='skip', or restore the topic; keep records longer next time"
            )
            raise StepFailed(msg, code="KAFKA-013", step=self._step, found=found, hint=hint)
        _log.warning("step %r: %s (%s), which on_data_loss='skip' accepts", self._step, msg, found)


def _is_there(place: KafkaPartition, position: KafkaPosition, topics: Mapping[str, Topic]) -> bool:
    topic = topics.get(place.topic)
    return topic is not None and topic.id == position.ids[place.topic] and place.partition in topic.partitions
