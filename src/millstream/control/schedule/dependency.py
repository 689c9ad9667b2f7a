"""Jobs that run after others: which ends of runs make a fire, and why a circle of jobs is refused."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from millstream.control.lifecycle.states import Status
from millstream.control.refusals import StateConflict
from millstream.control.schedule.spec import Outcome, ScheduleSpec

MOST_OPEN = 100
"""So many fire times are waited for at once; the oldest are given up."""
_OUTCOMES: Mapping[Outcome, frozenset[Status]] = {
    "success": frozenset({Status.COMPLETED}),
    "end": frozenset({Status.COMPLETED, Status.CANCELLED, Status.DEAD}),
    "failure": frozenset({Status.DEAD}),
}
ENDS = _OUTCOMES["end"]
"""A failed run waits for its next attempt, a suspended one goes on later: neither has ended."""


class EndedRun(NamedTuple):
    """A run of another job that ended, with the fire it came from, if it came from one."""

    job: str
    execution_id: str
    status: Status
    ended: dt.datetime
    fire_time: dt.datetime | None = None

    def fits(self, wanted: Outcome) -> bool:
        """Whether it ended as it is wanted."""
        return self.status in _OUTCOMES[wanted]


class UpstreamFire(NamedTuple):
    """A fire that runs of other jobs made."""

    fire_time: dt.datetime
    cause: str
    runs: tuple[str, ...]
    skipped: str | None = None


@dataclasses.dataclass(slots=True)
class UpstreamProgress:
    """What has come so far: fire times with the runs seen for each, and the newest runs inside the window."""

    by_time: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    ready: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    used: dict[str, list[str]] = dataclasses.field(default_factory=dict)


def cause_of(runs: Iterable[str]) -> str:
    """The cause of a fire that these runs made: the same runs have the same cause, in whichever order they ended."""
    return f"dep:{hashlib.sha256(' '.join(sorted(runs)).encode()).hexdigest()[:32]}"


def follow(spec: ScheduleSpec, progress: UpstreamProgress, run: EndedRun) -> UpstreamFire | None:
    """Take notice of the end of a run; the same one again changes nothing."""
    if run.job not in spec.waits_for:
        return None
    if spec.match == "fire_time":
        return None if run.fire_time is None else _at_fire_time(spec, progress, run, run.fire_time)
    return _in_window(spec, progress, run)


def _at_fire_time(
    spec: ScheduleSpec, progress: UpstreamProgress, run: EndedRun, at: dt.datetime
) -> UpstreamFire | None:
    entry = progress.by_time.setdefault(at.isoformat(), {"runs": {}, "done": False})
    if entry["done"]:
        return None
    entry["runs"][run.job] = [run.execution_id, run.fits(spec.waits_for[run.job])]
    for oldest in sorted(progress.by_time)[:-MOST_OPEN]:
        del progress.by_time[oldest]
    good = {job: seen[0] for job, seen in entry["runs"].items() if seen[1]}
    if good and (spec.need == "any" or good.keys() == spec.waits_for.keys()):
        entry["done"] = True
        return UpstreamFire(at, cause_of(good.values()), tuple(sorted(good.values())))
    if entry["runs"].keys() == spec.waits_for.keys():
        seen = [each[0] for each in entry["runs"].values()]
        other = sorted(entry["runs"].keys() - good.keys())
        return UpstreamFire(at, cause_of(seen), tuple(sorted(seen)), f"ended otherwise: {', '.join(other)}")
    return None


def _in_window(spec: ScheduleSpec, progress: UpstreamProgress, run: EndedRun) -> UpstreamFire | None:
    """Every run counts once; of several runs of a job the newest counts."""
    mark = [run.ended.isoformat(), run.execution_id]
    newest = max(progress.used.get(run.job, ["", ""]), progress.ready.get(run.job, ["", ""]))
    if mark <= newest or not run.fits(spec.waits_for[run.job]):
        return None
    progress.ready[run.job] = mark
    horizon = (run.ended - spec.window_time).isoformat()
    progress.ready = {job: seen for job, seen in progress.ready.items() if seen[0] >= horizon}
    if spec.need == "all" and progress.ready.keys() != spec.waits_for.keys():
        return None
    taken, progress.ready = progress.ready, {}
    progress.used |= taken
    runs = tuple(sorted(seen[1] for seen in taken.values()))
    return UpstreamFire(run.ended, cause_of(runs), runs)


def refuse_cycle(job: str, waits_for: Iterable[str], others: Mapping[str, Iterable[str]]) -> None:
    """Refuse a schedule that would make a job wait for itself.

    Args:
        job: the job whose schedule is saved.
        waits_for: the jobs it is to wait for.
        others: what every other job waits for.

    Raises:
        StateConflict: (CTL-211) with the jobs of the circle in order.
    """
    graph = {**{name: tuple(each) for name, each in others.items()}, job: tuple(waits_for)}
    came_from: dict[str, str] = {}
    open_jobs = [job]
    while open_jobs:
        at = open_jobs.pop()
        for other in graph.get(at, ()):
            if other == job:
                raise _circle(job, at, came_from)
            if other not in came_from:
                came_from[other] = at
                open_jobs.append(other)


def _circle(job: str, last: str, came_from: Mapping[str, str]) -> StateConflict:
    chain = [job, last]
    while chain[-1] != job:
        chain.append(came_from[chain[-1]])
    shown = " waits for ".join(reversed(chain))
    msg = "schedule: the jobs would wait for each other in a circle"
    return StateConflict(msg, code="CTL-211", found=shown, hint="take one of these dependencies away")
