"""One fire: its row decides whether it is ours, and who wrote the row starts the run, in the same transaction."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.exc import IntegrityError

from millstream.control.lifecycle.states import OPEN
from millstream.control.metadata.tables.runs import execution
from millstream.control.metadata.tables.schedules import schedule_fire
from millstream.control.schedule.concurrency import Admission, Result, admission
from millstream.control.schedule.rows import StoredSchedule, insert_new
from millstream.errors import ExternalFailure, MillstreamError

Span = tuple[dt.datetime, dt.datetime]


class StartRun(Protocol):
    """Makes a run in the transaction it is given; `None` if there is one already that forbids it."""

    def __call__(
        self,
        connection: Connection,
        job_id: int,
        *,
        trigger_id: str,
        fire_time: dt.datetime,
        interval: Span | None,
        params: Mapping[str, Any],
        slot_no: int,
    ) -> str | None:
        """Gives the id of the run."""


class CancelRun(Protocol):
    """Asks for the end of a run in the transaction it is given."""

    def __call__(self, connection: Connection, execution_id: str, *, cause: str) -> None:
        """It ends later."""


@dataclasses.dataclass(frozen=True, slots=True)
class RunActs:
    """What a schedule does to runs."""

    start_run: StartRun
    cancel_run: CancelRun


class Firing(NamedTuple):
    """A fire that is to be decided; with `skipped` it is known already that it does not run."""

    fire_time: dt.datetime
    cause: str
    interval: Span | None = None
    value: str | None = None
    """What the event brought, for the parameter that the schedule names."""
    skipped: str | None = None

    @property
    def trigger_id(self) -> str:
        """The key of its run: the same fire cannot start two."""
        if self.cause.startswith("manual:"):
            return self.cause
        return f"{self.cause}@{self.fire_time.isoformat()}"


class FireResult(NamedTuple):
    """What was decided."""

    fire_time: dt.datetime
    cause: str
    result: Result
    reason: str | None
    execution_id: str | None


class Holdings(NamedTuple):
    """What the runs and fires of jobs hold."""

    open_runs: dict[int, dict[int, str]]
    """By job: runs that hold a slot, by its number."""
    waiting: dict[int, int]
    """By job: how many fires wait for a slot."""


_OPEN_RUNS = select(execution.c.job_id, execution.c.slot_no, execution.c.execution_id).where(
    execution.c.job_id.in_(bindparam("jobs", expanding=True)), execution.c.status.in_(sorted(OPEN))
)
_WAITING = (
    select(schedule_fire.c.job_id, func.count().label("count"))
    .where(schedule_fire.c.result == "QUEUED", schedule_fire.c.job_id.in_(bindparam("jobs", expanding=True)))
    .group_by(schedule_fire.c.job_id)
)
_WRITE_RESULT = (
    update(schedule_fire)
    .where(schedule_fire.c.job_id == bindparam("job"), schedule_fire.c.fire_time == bindparam("at"))
    .where(schedule_fire.c.cause == bindparam("why"))
    .values(result=bindparam("outcome"), execution_id=bindparam("run"), reason=bindparam("problem"))
)


def holdings(connection: Connection, jobs: Sequence[int]) -> Holdings:
    """What these jobs hold now."""
    held = Holdings({job: {} for job in jobs}, dict.fromkeys(jobs, 0))
    for row in connection.execute(_OPEN_RUNS, {"jobs": jobs}):
        held.open_runs[row.job_id][row.slot_no] = row.execution_id
    for row in connection.execute(_WAITING, {"jobs": jobs}):
        held.waiting[row.job_id] = row._mapping["count"]
    return held


class JobFires:
    """The fires of one schedule in one transaction, with what its runs hold."""

    def __init__(
        self,
        connection: Connection,
        stored: StoredSchedule,
        acts: RunActs,
        now: dt.datetime,
        held: Holdings | None = None,
    ) -> None:
        self.connection = connection
        self.stored = stored
        self.acts = acts
        self.now = now
        self._take(held or holdings(connection, [stored.job_id]))

    def _take(self, held: Holdings) -> None:
        self.open_runs = held.open_runs[self.stored.job_id]
        self.waiting = held.waiting[self.stored.job_id]

    def fire(self, firing: Firing) -> FireResult | None:
        """Decide a fire; `None` says that it was decided before."""
        return self._decided(firing, self._admitted(firing))

    def fire_in(self, firing: Firing, slot: int) -> FireResult | None:
        """Fire into a slot outside those of the schedule; `None` says that it was decided before."""
        return self._decided(firing, Admission("FIRED", slot=slot))

    def _decided(self, firing: Firing, admitted: Admission) -> FireResult | None:
        row = {
            "job_id": self.stored.job_id,
            "fire_time": firing.fire_time,
            "cause": firing.cause,
            "decided_at": self.now,
            "result": admitted.result,
            "reason": admitted.reason,
            "revision": self.stored.revision,
            "time_zone": self.stored.spec.time_zone,
        }
        if insert_new(self.connection, schedule_fire, row) is None:
            return None
        if admitted.slot is not None:
            return self.start(firing, admitted.slot)
        if admitted.cancels:
            self._cancel_for(firing)
        if admitted.result == "QUEUED":
            self._wait(firing)
        return FireResult(firing.fire_time, firing.cause, admitted.result, admitted.reason, None)

    def start(self, firing: Firing, slot: int) -> FireResult:
        """Start the run of a fire whose row is ours, and write down what became of it."""
        run, problem = self._started(firing, slot)
        result: Result = "FIRED" if run is not None else "SKIPPED"
        if run is None:
            # Another may have taken the slot meanwhile: then this fire waits, where it may.
            self._take(holdings(self.connection, [self.stored.job_id]))
            if slot in self.open_runs and slot in self.stored.spec.limit.slots and self.stored.spec.limit.places:
                result = "QUEUED"
        key = {"job": self.stored.job_id, "at": firing.fire_time, "why": firing.cause}
        self.connection.execute(_WRITE_RESULT, {**key, "outcome": result, "run": run, "problem": problem})
        if run is not None:
            self.open_runs[slot] = run
        if result == "QUEUED":
            self._wait(firing)
        else:
            self.stored.state.get("values", {}).pop(firing.trigger_id, None)
        return FireResult(firing.fire_time, firing.cause, result, problem, run)

    def params(self, value: str | None) -> dict[str, Any]:
        """Parameters of a run, with what the event brought."""
        spec = self.stored.spec
        name = spec.event.param if spec.event is not None else None
        return {**spec.params, **({name: value} if name is not None and value is not None else {})}

    def _admitted(self, firing: Firing) -> Admission:
        if firing.skipped is not None:
            return Admission("SKIPPED", reason=firing.skipped)
        if not self.stored.runs_jobs:
            return Admission("SKIPPED", reason="the job is disabled")
        return admission(self.stored.spec.limit, self.open_runs, self.waiting)

    def _started(self, firing: Firing, slot: int) -> tuple[str | None, str | None]:
        try:
            with self.connection.begin_nested():
                run = self.acts.start_run(
                    self.connection,
                    self.stored.job_id,
                    trigger_id=firing.trigger_id,
                    fire_time=firing.fire_time,
                    interval=firing.interval,
                    params=self.params(firing.value),
                    slot_no=slot,
                )
        except IntegrityError:
            run = None  # another run took the slot, or the key, in between
        except ExternalFailure:
            raise
        except MillstreamError as refused:
            return None, str(refused)
        return run, None if run is not None else "another run of the job was first"

    def _wait(self, firing: Firing) -> None:
        self.waiting += 1
        if firing.value is not None:
            self.stored.state.setdefault("values", {})[firing.trigger_id] = firing.value

    def _cancel_for(self, firing: Firing) -> None:
        """Make way for a fire: those that wait are skipped, those that run are asked to end."""
        self._skip_waiting(firing)
        for slot in self.stored.spec.limit.slots:
            if slot in self.open_runs:
                self.acts.cancel_run(self.connection, self.open_runs[slot], cause=firing.trigger_id)

    def _skip_waiting(self, firing: Firing) -> None:
        is_other = (schedule_fire.c.fire_time != firing.fire_time) | (schedule_fire.c.cause != firing.cause)
        values = {"result": "SKIPPED", "reason": f"replaced by the fire of {firing.fire_time.isoformat()}"}
        self.connection.execute(update(schedule_fire).where(*self._queued(), is_other).values(**values))
        self.waiting = 0
        self.stored.state.pop("values", None)

    def _queued(self) -> tuple[Any, ...]:
        return schedule_fire.c.result == "QUEUED", schedule_fire.c.job_id == self.stored.job_id
