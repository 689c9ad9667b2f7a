"""Alignment: which sources, or partitions of sources, an epoch does not read because they are ahead of their group.

Members of a group are the partitions of its event-time steps that have shown a watermark and are neither idle nor finished.
One is paused when it is ahead of the slowest member of a group by more than its `max_drift`, and the slowest of no group.
Wherever something is paused, there is hence something slower that is read: nothing waits in a circle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from millstream.jobmaster.planner.learned import PlannerState, source_of
from millstream.jobmaster.planner.watermarks import PlanningFacts, TimeStep, marks_of
from millstream.model.time import MIN_TIME


class _Member(NamedTuple):
    partition: str
    watermark: int
    max_drift: int


def paused(
    steps: Iterable[TimeStep], state: PlannerState, facts: PlanningFacts, selective: Collection[str] = ()
) -> list[str]:
    """What the next epoch does not read, sorted.

    Args:
        steps: the event-time steps of the job.
        state: what was learned of their partitions.
        facts: what else the decision is taken from.
        selective: sources that can leave single partitions out; of the others, all or nothing is read.
    """
    groups = _groups(steps, state, facts)
    lowest = {group: min(member.watermark for member in members) for group, members in groups.items()}
    ahead: set[str] = set()
    needed: set[str] = set()
    known: set[str] = set()
    for group, members in groups.items():
        known |= {member.partition for member in members}
        ahead |= {member.partition for member in members if member.watermark > lowest[group] + member.max_drift}
        needed |= {member.partition for member in members if member.watermark == lowest[group]}
    return _by_source(known, ahead - needed, selective)


def _groups(steps: Iterable[TimeStep], state: PlannerState, facts: PlanningFacts) -> dict[str, list[_Member]]:
    groups: dict[str, list[_Member]] = {}
    for step in steps:
        group, max_drift = step.operation.align, step.operation.max_drift
        if group is None or max_drift is None:
            continue
        moving = [mark for mark in marks_of(step, state, facts) if not mark.is_idle and mark.watermark > MIN_TIME]
        if moving:
            groups.setdefault(group, []).extend(_Member(mark.partition, mark.watermark, max_drift) for mark in moving)
    return groups


def _by_source(known: set[str], waiting: set[str], selective: Collection[str]) -> list[str]:
    """A source waits when all its partitions that are heard of wait; single ones only where it can leave them out."""
    whole = {source_of(partition) for partition in waiting} - {source_of(partition) for partition in known - waiting}
    single = {partition for partition in waiting if source_of(partition) in selective}
    return sorted(whole | {partition for partition in single if source_of(partition) not in whole})
