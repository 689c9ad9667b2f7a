"""What the planner knows between epochs: it learns from the reports of tasks, and stands in every manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from millstream.graph.operations.watermark import EventTime
from millstream.model.time import LAST_EVENT, MIN_TIME, event_time_problem
from millstream.plan.epoch import EpochPlan
from millstream.runtime.bad_records import USER_PROBLEMS, generator_failure
from millstream.runtime.messages import TaskReport


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """What a partition has shown."""

    newest: int
    """Its newest event time."""
    at: int
    """The clock when it last had rows. It is moved on by the time in which the partition was not read."""
    mark: int | None = None
    """The highest watermark its rows, or a generator, gave it."""
    kept: Any = None
    """What a generator keeps for it."""


class Pace(msgspec.Struct, kw_only=True):
    """What is known of how a source is worked off, so that a run which starts again need not learn it anew."""

    credit: int = 0
    """Rows for the next epoch by the target; 0 before the first."""
    rate: float = 0.0
    """Rows per second, smoothed over epochs that used their credit up or took too long."""
    row_bytes: float = 0.0
    """Bytes of a row as it was read, smoothed."""


class PlannerState(msgspec.Struct, kw_only=True):
    """What the planner learned from the tasks; stands in every manifest."""

    started: int
    now: int | None = None
    """The clock of the newest epoch."""
    partitions: dict[str, dict[str, Seen]] = {}
    """Per event-time step and source partition."""
    strategies: dict[str, str] = {}
    """Per event-time step: the strategy that its marks and what generators keep come from."""
    moved: dict[str, int] = {}
    """Per event-time step: the clock when its watermark last moved."""
    since: dict[str, int] = {}
    """Per source: the clock when it was first read."""
    paused: list[str] = []
    """Sources and partitions that the newest epoch did not read because they were ahead."""
    event_due: dict[str, dict[str, int]] = {}
    """Per keyed step and task: when it next has something to do."""
    processing_due: dict[str, int] = {}
    """Per task: when its next processing-time timer is due."""
    paces: dict[str, Pace] = {}
    """Per source: how it is worked off."""


def learn(
    state: PlannerState, operations: Mapping[str, EventTime], plan: EpochPlan, reports: Iterable[TaskReport]
) -> None:
    """Learn from an epoch that ran. Everything follows from its plan and its reports, so a replay teaches the same."""
    told = list(reports)
    _let_paused_wait(state, plan.now)
    for step, operation in operations.items():
        _learn_times(state, step, operation, plan.now, told)
    for report in told:
        task = f"{report.level}/{report.task}"
        for step, due in report.event_due.items():
            state.event_due.setdefault(step, {})[task] = due
        if report.level:
            state.processing_due[task] = report.processing_due
    for step, mark in plan.watermarks.items():
        if step in operations and mark > plan.previous.get(step, MIN_TIME):
            state.moved[step] = plan.now
    for source in plan.sources:
        state.since.setdefault(source, state.started if state.now is None else plan.now)
    state.paused, state.now = list(plan.paused), plan.now


def is_paused(partition: str, paused: Iterable[str]) -> bool:
    """Whether a partition is among sources and partitions that are not read."""
    return partition in paused or source_of(partition) in paused


def source_of(partition: str) -> str:
    """The source of a partition, whose name it begins with."""
    return partition.partition("/")[0]


def _let_paused_wait(state: PlannerState, now: int) -> None:
    """The time in which a partition was not read says nothing about whether it is idle."""
    passed = 0 if state.now is None else now - state.now
    if not passed or not state.paused:
        return
    for seen in state.partitions.values():
        for partition, content in seen.items():
            if is_paused(partition, state.paused):
                seen[partition] = msgspec.structs.replace(content, at=content.at + passed)


def _learn_times(state: PlannerState, step: str, operation: EventTime, now: int, reports: list[TaskReport]) -> None:
    known = state.partitions.setdefault(step, {})
    if state.strategies.get(step, operation.strategy) != operation.strategy:
        known.update({name: Seen(seen.newest, seen.at) for name, seen in known.items()})
    state.strategies[step] = operation.strategy
    for report in reports:
        for partition, newest in report.newest.get(step, {}).items():
            before = known.get(partition, Seen(newest, now))
            known[partition] = Seen(max(newest, before.newest), now, before.mark, before.kept)
    for partition in known:
        marks = [mark for report in reports if (mark := report.marks.get(step, {}).get(partition)) is not None]
        newest_mark = max(marks, default=None)
        if operation.function is not None:
            rows = sum(report.timed.get(step, {}).get(partition, 0) for report in reports)
            known[partition] = _asked(step, operation.function.target, known[partition], newest_mark, rows, now)
        elif newest_mark is not None:
            known[partition] = _marked(known[partition], newest_mark)
    if not known:
        del state.partitions[step]


def _marked(seen: Seen, mark: int | None) -> Seen:
    higher = seen.mark if mark is None else mark if seen.mark is None else max(mark, seen.mark)
    return msgspec.structs.replace(seen, mark=higher)


def _asked(step: str, generator: Any, seen: Seen, newest: int | None, rows: int, now: int) -> Seen:
    """What a generator of the user's makes of an epoch."""
    try:
        kept, mark = generator.on_epoch(seen.kept, newest, rows, now)
        stored = msgspec.json.decode(msgspec.json.encode(kept))
    except USER_PROBLEMS as problem:
        raise generator_failure(step, "on_epoch", problem, f"an epoch with {rows} rows") from problem
    if not (mark is None or (isinstance(mark, int) and not isinstance(mark, bool))):
        msg = "on_epoch gives a state and a watermark in milliseconds, or None"
        raise generator_failure(step, "on_epoch", msg, repr(mark))
    if mark is not None and mark > LAST_EVENT:
        raise generator_failure(step, "on_epoch", f"watermark {event_time_problem(mark)}", repr(mark))
    return msgspec.structs.replace(_marked(seen, None if mark is None else max(mark, MIN_TIME)), kept=stored)
