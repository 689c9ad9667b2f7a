"""How far event time has come: the watermark of each partition, step and combination of steps, as functions over values.

The watermark of a step is the minimum over its partitions that are neither idle nor finished; when all its sources have
ended it moves to the end of time, so that what is open behind it is closed before anybody stops waiting for it. A vertex that
sees several steps follows those that are neither idle nor over. Neither ever goes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from millstream.api.running.result import PartitionWatermark
from millstream.graph.operations.watermark import EventTime
from millstream.jobmaster.planner.learned import PlannerState, Seen, is_paused, source_of
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.plan.epoch import EpochPlan, combined_name


class TimeStep(msgspec.Struct, frozen=True):
    """An event-time step, and where its rows come from."""

    id: str
    operation: EventTime
    sources: tuple[str, ...]
    is_at_source: bool
    """Whether it sees the partitions of its sources, rather than those of an exchange."""


class PlanningFacts(NamedTuple):
    """What a decision is taken from, beside what was learned."""

    now: int
    finished: Collection[str]
    """Sources of which everything was read before."""
    stated: Mapping[str, int]
    """Watermarks that sources state themselves."""
    known: Mapping[str, Collection[str]] = {}
    """Partitions that sources say they have."""
    resumed: int = MIN_TIME
    """The clock when this run began: partitions were not read while there was none."""
    goes_on: bool = True
    """Whether a source is still read. Behind the last one the terminal epoch comes, which moves every watermark itself."""
    drained: Mapping[str, Collection[str]] = {}
    """Per source that can tell: its partitions in which nothing waits. The others are not idle, however long unread."""

    def may_be_idle(self, partition: str) -> bool:
        """Whether silence of a partition means that there is nothing; a source stands for all its partitions."""
        source = source_of(partition)
        if source not in self.drained:
            return True
        if partition == source:
            return all(f"{source}/{each}" in self.drained[source] for each in self.known.get(source, ()))
        return partition in self.drained[source]

    def is_over(self, step: TimeStep) -> bool:
        """Whether a step has met all its rows: what an exchange still holds is known of sources alone."""
        return self.goes_on and step.is_at_source and all(source in self.finished for source in step.sources)


class PartitionMark(NamedTuple):
    """How far one partition has come; a source that has shown nothing stands for its partitions."""

    partition: str
    watermark: int
    is_idle: bool


def marks_of(step: TimeStep, state: PlannerState, facts: PlanningFacts) -> list[PartitionMark]:
    """The partitions of a step that are not finished."""
    seen = state.partitions.get(step.id, {})
    if not step.is_at_source:
        return _seen_marks(step, seen.items(), state, facts) or [_silent(step, step.id, state.started, facts)]
    marks: list[PartitionMark] = []
    for source in step.sources:
        if source in facts.finished:
            continue
        if source in facts.stated:
            marks.append(PartitionMark(source, facts.stated[source], is_idle=False))
            continue
        marks += [PartitionMark(name, facts.stated[name], is_idle=False) for name in _stated(source, facts)]
        mine = [(name, shown) for name, shown in seen.items() if _is_of(name, source) and name not in facts.stated]
        silent = (
            [name for name in _known(source, facts) if name not in seen] if mine or _stated(source, facts) else [source]
        )
        marks += _seen_marks(step, mine, state, facts)
        marks += [_silent(step, name, _first_read(source, state, facts), facts) for name in silent]
    return marks


def _known(source: str, facts: PlanningFacts) -> list[str]:
    return [name for each in facts.known.get(source, ()) if (name := f"{source}/{each}") not in facts.stated]


def _stated(source: str, facts: PlanningFacts) -> list[str]:
    return [name for name in facts.stated if _is_of(name, source)]


def _is_of(partition: str, source: str) -> bool:
    return partition.startswith(f"{source}/")


def _seen_marks(
    step: TimeStep, seen: Iterable[tuple[str, Seen]], state: PlannerState, facts: PlanningFacts
) -> list[PartitionMark]:
    return [
        PartitionMark(
            partition, _mark(step.operation, content), _is_idle(step.operation, partition, content, state, facts)
        )
        for partition, content in seen
    ]


def _mark(operation: EventTime, seen: Seen) -> int:
    if operation.strategy == "none":
        return MIN_TIME
    if operation.is_marked:
        return MIN_TIME if seen.mark is None else seen.mark
    return seen.newest - operation.max_delay - 1


def _is_idle(operation: EventTime, partition: str, seen: Seen, state: PlannerState, facts: PlanningFacts) -> bool:
    if operation.idle_after is None or not facts.may_be_idle(partition):
        return False
    now = state.now if state.now is not None and is_paused(partition, state.paused) else facts.now
    return now - _counted_from(seen.at, facts) >= operation.idle_after


def _counted_from(at: int, facts: PlanningFacts) -> int:
    # A scripted clock may lie before the clock on the wall, by which the run began.
    return max(at, facts.resumed) if facts.resumed <= facts.now else at


def _first_read(source: str, state: PlannerState, facts: PlanningFacts) -> int:
    """When a source was first read; one that the job has just got, now."""
    return state.since.get(source, facts.now if state.since else state.started)


def _silent(step: TimeStep, name: str, since: int, facts: PlanningFacts) -> PartitionMark:
    """Something that has shown nothing yet holds the watermark until it counts as idle."""
    idle_after = step.operation.idle_after
    is_idle = idle_after is not None and facts.now - _counted_from(since, facts) >= idle_after
    return PartitionMark(name, MIN_TIME, is_idle and facts.may_be_idle(name))


class Watermarks(NamedTuple):
    """The watermarks of an epoch."""

    steps: dict[str, int]
    combined: dict[str, int]
    """Where a vertex sees several steps."""


def watermarks_before(steps: Iterable[TimeStep], facts: PlanningFacts, last: EpochPlan) -> Watermarks:
    """The watermarks of the epoch before; the end of time is taken back where a job has got rows to read again."""
    ended = {step.id for step in steps if all(source in facts.finished for source in step.sources)}
    return Watermarks(
        {step: mark for step, mark in last.watermarks.items() if mark < MAX_TIME or step in ended},
        {name: mark for name, mark in last.combined.items() if mark < MAX_TIME or ended.issuperset(name.split(" "))},
    )


def decide_watermarks(
    steps: Collection[TimeStep],
    combinations: Iterable[Sequence[str]],
    state: PlannerState,
    facts: PlanningFacts,
    before: Watermarks,
) -> Watermarks:
    """The watermarks of the epoch behind the one in which they were `before`."""
    over = {step.id for step in steps if facts.is_over(step)}
    marks = {step.id: [mark.watermark for mark in marks_of(step, state, facts) if not mark.is_idle] for step in steps}
    decided = {
        step.id: MAX_TIME
        if step.id in over
        else _moved(
            step.operation, marks[step.id], before.steps.get(step.id, MIN_TIME), state.moved.get(step.id), facts
        )
        for step in steps
    }
    combined: dict[str, int] = {}
    for names in combinations:
        name = combined_name(names)
        stands = before.combined.get(name, min(before.steps.get(each, MIN_TIME) for each in names))
        heard = [MAX_TIME] if over.issuperset(names) else [decided[each] for each in names if marks[each]]
        combined[name] = max(stands, min(heard, default=stands))
    return Watermarks(decided, combined)


def _moved(operation: EventTime, active: Sequence[int], before: int, moved: int | None, facts: PlanningFacts) -> int:
    if operation.interval is not None and moved is not None and facts.now - moved < operation.interval:
        return before
    return max(min(active), before) if active else before


def partition_watermarks(
    steps: Iterable[TimeStep], state: PlannerState, facts: PlanningFacts, paused: Collection[str]
) -> tuple[PartitionWatermark, ...]:
    """Every partition with its watermark; those that hold a step back are the lowest that are not idle."""
    partitions: list[PartitionWatermark] = []
    for step in steps:
        marks = sorted(marks_of(step, state, facts))
        lowest = min((mark.watermark for mark in marks if not mark.is_idle), default=None)
        partitions += [
            PartitionWatermark(
                step=step.id,
                partition=mark.partition,
                watermark=mark.watermark,
                is_idle=mark.is_idle,
                is_holding=not mark.is_idle and mark.watermark == lowest,
                is_paused=is_paused(mark.partition, paused),
            )
            for mark in marks
        ]
    return tuple(partitions)
