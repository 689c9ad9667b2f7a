"""Figures of all jobs and nodes of a service, read from its metadata."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Select, func, select

from millstream.control.act import Act
from millstream.control.lifecycle.states import OPEN, OWNED, Status
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.nodes import node
from millstream.control.metadata.tables.runs import checkpoint, execution
from millstream.control.metadata.tables.schedules import schedule
from millstream.control.metrics.counting import counters
from millstream.control.metrics.tallies import TallyKey, beginnings, figures_of_tallies
from millstream.jobmaster.metrics.metric import Figure


class FleetFigures:
    """Reads the figures; what it counted never falls while it lives, whatever becomes of rows it has counted."""

    def __init__(self) -> None:
        self._shown: dict[TallyKey, float] = {}

    def figures(self, act: Act) -> list[Figure]:
        """All figures, read in one transaction."""
        jobs = _jobs(act)
        return [
            *_states(act, jobs),
            *_last_runs(act),
            *self._counted(act, jobs),
            *_epochs(act),
            *_nodes(act),
        ]

    def _counted(self, act: Act, jobs: Mapping[int, str]) -> Iterator[Figure]:
        scheduled = [jobs[each] for each in act.connection.execute(select(schedule.c.job_id)).scalars() if each in jobs]
        counted = {**beginnings(jobs.values(), scheduled), **counters(act)}
        # A fire that waited is one that fires later: its row changes after it was counted as waiting.
        for key, value in counted.items():
            self._shown[key] = max(value, self._shown.get(key, 0.0))
        there = set(jobs.values())
        for figure in figures_of_tallies(self._shown):
            if figure.labels["job_name"] in there:
                yield figure


def _jobs(act: Act) -> dict[int, str]:
    asked = select(job_definition.c.id, job_definition.c.job_name).where(job_definition.c.deleted_time.is_(None))
    return {row.id: row.job_name for row in act.connection.execute(asked)}


def _states(act: Act, jobs: Mapping[int, str]) -> Iterator[Figure]:
    """Every state of every job that has run, as 0 or 1."""
    columns = execution.c.job_id, execution.c.status
    found: dict[int, set[str]] = {}
    for row in act.connection.execute(select(*columns).where(execution.c.id.in_(_newest()))):
        found[row.job_id] = {row.status}
    for row in act.connection.execute(select(*columns).where(execution.c.status.in_(OPEN)).order_by(execution.c.id)):
        # The last run says nothing while an earlier one of the job is still open.
        found[row.job_id] = {row.status} | {each for each in found.get(row.job_id, ()) if each in OPEN}
    for job, states in found.items():
        if job in jobs:
            for status in Status:
                yield Figure("job_state", status in states, {"job_name": jobs[job], "state": status})


def _newest() -> Select[Any]:
    return select(func.max(execution.c.id)).group_by(execution.c.job_id)


def _last_runs(act: Act) -> Iterator[Figure]:
    ended = select(func.max(execution.c.id)).where(execution.c.end_time.is_not(None)).group_by(execution.c.job_id)
    columns = execution.c.job_name, execution.c.start_time, execution.c.end_time
    live = job_definition.c.deleted_time.is_(None)
    joined = execution.join(job_definition, job_definition.c.id == execution.c.job_id)
    for row in act.connection.execute(select(*columns).select_from(joined).where(execution.c.id.in_(ended), live)):
        took = (row.end_time - row.start_time).total_seconds()
        yield Figure("job_last_run_duration_seconds", max(0.0, took), {"job_name": row.job_name})


def _epochs(act: Act) -> Iterator[Figure]:
    """When open runs last published something, and how often they do."""
    joined = checkpoint.join(execution, execution.c.execution_id == checkpoint.c.execution_id)
    done = checkpoint.c.status == "COMPLETED", checkpoint.c.checkpoint_type == "CHECKPOINT"
    asked = select(execution.c.job_name, checkpoint.c.complete_time).select_from(joined)
    times: dict[str, list[dt.datetime]] = {}
    for row in act.connection.execute(asked.where(*done, execution.c.status.in_(OPEN))):
        times.setdefault(row.job_name, []).append(row.complete_time)
    for job, instants in times.items():
        labels = {"job_name": job}
        yield Figure("epoch_last_completed_timestamp_seconds", max(instants).timestamp(), labels)
        interval = mean_interval(instants)
        if interval is not None:
            yield Figure("epoch_interval_seconds", interval, labels)


def mean_interval(instants: Iterable[dt.datetime]) -> float | None:
    """The mean time between neighbours; `None` where there are none."""
    several = sorted(instants)
    return (several[-1] - several[0]).total_seconds() / (len(several) - 1) if len(several) > 1 else None


def _nodes(act: Act) -> Iterator[Figure]:
    used = select(execution.c.node_id, func.count()).where(execution.c.status.in_(OWNED)).group_by(execution.c.node_id)
    busy = {name: count for name, count in act.connection.execute(used).all()}
    for row in act.connection.execute(select(node).where(node.c.state != "GONE").order_by(node.c.id)):
        age, taken = (act.now - row.heartbeat_at).total_seconds(), busy.get(row.id, 0)
        yield Figure("node_heartbeat_age_seconds", max(0.0, age), {"node": row.id})
        yield Figure("slots", taken, {"node": row.id, "state": "used"})
        yield Figure("slots", max(0, row.slots - taken), {"node": row.id, "state": "free"})
