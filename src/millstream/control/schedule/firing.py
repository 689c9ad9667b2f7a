"""One fire: its row decides whether it is ours, and who wrote the row starts the run, in the same transaction."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection, func, select, update
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


class JobFires:
    """The fires of one schedule in one transaction, with what its runs hold."""

    def __init__(self, connection: Connection, stored: StoredSchedule, acts: RunActs, now: dt.datetime) -> None:
        self.connection = connection
        self.stored = stored
        self.acts = acts
        self.now = now
        self._open: dict[int, str] | None = None
        self._waiting: int | None = None

    @property
    def open_runs(self) -> dict[int, str]:
        """Runs of the job that hold a slot, by its number."""
        if self._open is None:
            mine = (execution.c.job_id == self.stored.job_id, execution.c.status.in_(OPEN))
            rows = self.connection.execute(select(execution.c.slot_no, execution.c.execution_id).where(*mine))
            self._open = {row.slot_no: row.execution_id for row in rows}
        return self._open

    @property
    def waiting(self) -> int:
        """Fires that wait for a slot."""
        if self._waiting is None:
            counted = select(func.count()).select_from(schedule_fire).where(*self._queued())
            self._waiting = self.connection.execute(counted).scalar_one()
        return self._waiting

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
        if admitted.result == "QUEUED":
            self._enqueue(firing, admitted)
        return FireResult(firing.fire_time, firing.cause, admitted.result, admitted.reason, None)

    def start(self, firing: Firing, slot: int) -> FireResult:
        """Start the run of a fire whose row is ours, and write down what became of it."""
        run, problem = self._started(firing, slot)
        result: Result = "FIRED" if run is not None else "SKIPPED"
        if run is None:
            self._open = None  # another may have taken the slot meanwhile: then this fire waits, where it may
            if slot in self.open_runs and slot in self.stored.spec.limit.slots and self.stored.spec.limit.places:
                result = "QUEUED"
        values = {"result": result, "execution_id": run, "reason": problem}
        self.connection.execute(update(schedule_fire).where(*self._key(firing)).values(**values))
        if run is not None:
            self.open_runs[slot] = run
        if result != "QUEUED":
            self.stored.state.get("values", {}).pop(firing.trigger_id, None)
        elif firing.value is not None:
            self.stored.state.setdefault("values", {})[firing.trigger_id] = firing.value
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

    def _enqueue(self, firing: Firing, admitted: Admission) -> None:
        if firing.value is not None:
            self.stored.state.setdefault("values", {})[firing.trigger_id] = firing.value
        self._waiting = self.waiting + 1
        if admitted.cancels:
            self._skip_others(firing)
            for slot in self.stored.spec.limit.slots:
                if slot in self.open_runs:
                    self.acts.cancel_run(self.connection, self.open_runs[slot], cause=firing.trigger_id)

    def _skip_others(self, firing: Firing) -> None:
        is_other = (schedule_fire.c.fire_time != firing.fire_time) | (schedule_fire.c.cause != firing.cause)
        values = {"result": "SKIPPED", "reason": f"replaced by the fire of {firing.fire_time.isoformat()}"}
        self.connection.execute(update(schedule_fire).where(*self._queued(), is_other).values(**values))
        self._waiting = 1

    def _queued(self) -> tuple[Any, ...]:
        return schedule_fire.c.result == "QUEUED", schedule_fire.c.job_id == self.stored.job_id

    def _key(self, firing: Firing) -> tuple[Any, ...]:
        mine = schedule_fire.c
        return mine.job_id == self.stored.job_id, mine.fire_time == firing.fire_time, mine.cause == firing.cause
