"""Schedules as they stand in the tables, read into values and written back."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import functools
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Executable, Insert, Row, Select, Table, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite

from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.schedules import schedule
from millstream.control.schedule.spec import ScheduleSpec, schedule_spec


@dataclasses.dataclass(slots=True)
class StoredSchedule:
    """A schedule with its job, and how far it has come.

    `state` is written back with `keep`: `until` is the last fire of the clock that was decided, `resumed` when a pause ended.
    """

    id: int
    job_id: int
    job: str
    runs_jobs: bool
    """Whether the job may run at all: it is neither disabled nor deleted."""
    spec: ScheduleSpec
    enabled: bool
    next_time: dt.datetime | None
    revision: int
    revised_at: dt.datetime
    state: dict[str, Any]
    saved_state: dict[str, Any] | None

    @property
    def decided(self) -> dt.datetime:
        """Up to where everything is decided: fires until then do not come again, whatever the clock says."""
        marks = [dt.datetime.fromisoformat(self.state[name]) for name in ("until", "resumed") if name in self.state]
        return max(self.revised_at, *marks) if marks else self.revised_at

    def is_due(self, now: dt.datetime) -> bool:
        """Whether its time has come."""
        return self.enabled and self.next_time is not None and self.next_time <= now


_KEEP_TIME = update(schedule).where(schedule.c.id == bindparam("this")).values(next_trigger_time=bindparam("next_time"))
_KEEP = (
    update(schedule)
    .where(schedule.c.id == bindparam("this"))
    .values(next_trigger_time=bindparam("next_time"), event_cursor=bindparam("state"))
)


def reading() -> Select[Any]:
    """All schedules with their jobs; the caller says which."""
    job = job_definition.c
    return select(schedule, job.job_name, job.enabled.label("job_enabled"), job.deleted_time).join(
        job_definition, job.id == schedule.c.job_id
    )


def read(row: Row[Any]) -> StoredSchedule:
    """A row of `reading`."""
    return StoredSchedule(
        id=row.id,
        job_id=row.job_id,
        job=row.job_name,
        runs_jobs=row.job_enabled and row.deleted_time is None,
        spec=schedule_spec(row.spec),
        enabled=row.enabled and row.deleted_time is None,
        next_time=row.next_trigger_time,
        revision=row.revision,
        revised_at=row.revised_at,
        state=copy.deepcopy(row.event_cursor or {}),
        saved_state=row.event_cursor,
    )


def locked(connection: Connection, ids: Collection[int], *, wait: bool = False) -> list[Row[Any]]:
    """Rows that nobody else decides for until the transaction ends; without `wait` those of others are left to them."""
    found = reading().where(schedule.c.id.in_(ids)).order_by(schedule.c.id)
    return list(connection.execute(found.with_for_update(of=schedule, skip_locked=not wait)))


def locked_schedule(connection: Connection, job_id: int) -> StoredSchedule | None:
    """The schedule of a job, which nobody else changes until the transaction ends."""
    found = reading().where(schedule.c.job_id == job_id).with_for_update(of=schedule)
    row = connection.execute(found).one_or_none()
    return None if row is None else read(row)


def keep(connection: Connection, stored: StoredSchedule, next_time: dt.datetime | None) -> None:
    """Write how far a schedule has come, and when to look at it again."""
    if stored.state != stored.saved_state:
        connection.execute(_KEEP, {"this": stored.id, "next_time": next_time, "state": stored.state})
    elif next_time != stored.next_time:
        # What is known of a folder with many files is large: it is written when it changes.
        connection.execute(_KEEP_TIME, {"this": stored.id, "next_time": next_time})


def insert_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> Row[Any] | None:
    """Insert a row unless its key is taken; `None` says that another was first."""
    # Counts of rows are not to be relied on here: PostgreSQL's driver says -1. A row that comes back is the proof.
    return connection.execute(_insert(table, connection.dialect.name, tuple(values)), dict(values)).one_or_none()


@functools.lru_cache(maxsize=64)
def _insert(table: Table, database: str, columns: tuple[str, ...]) -> Executable:
    """Statements are built once: building one takes longer than SQLite takes to run it."""
    dialect = sqlite if database == "sqlite" else postgresql
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    adding: Insert = dialect.insert(table).values(values).on_conflict_do_nothing()
    return adding.returning(*table.primary_key.columns)
