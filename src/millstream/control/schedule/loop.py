"""The loop of the schedule: any number of servers run it at the same time, once a second.

What is due is read by its index; a schedule is decided under a lock of its row; and the row of a fire, not the lock, is what
makes a double fire impossible. Run and fire are of one transaction: there is never one without the other.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy.exc import InterfaceError, OperationalError

from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.schedules import schedule
from millstream.control.schedule.arrivals import Listing
from millstream.control.schedule.backfills import continue_backfills
from millstream.control.schedule.firing import FireResult, Holdings, JobFires, RunActs, holdings
from millstream.control.schedule.kinds import decide_due, decide_ends, watched_pattern
from millstream.control.schedule.looks import DueLook, FolderLooks
from millstream.control.schedule.rows import keep, locked, read
from millstream.control.schedule.spec import schedule_spec
from millstream.control.schedule.upstream import woken
from millstream.control.schedule.waiting import schedules_with_queue, start_waiting
from millstream.errors import ExternalFailure, MillstreamError

_MOST_DUE = 1000
_BATCH = 10
"""So many schedules are decided in one transaction: others get their turn in between."""


@dataclasses.dataclass(slots=True)
class TickReport:
    """What one turn of the loop did."""

    decided: list[tuple[int, FireResult]] = dataclasses.field(default_factory=list)
    """With the job's id."""
    failures: list[tuple[int, Exception]] = dataclasses.field(default_factory=list)
    """Schedules that could not be decided, by their id; they are tried again."""
    stuck_backfills: list[tuple[int, Exception]] = dataclasses.field(default_factory=list)
    """Backfills that could not go on, by their number; they are tried again."""


@dataclasses.dataclass(slots=True)
class _Turn:
    now: dt.datetime
    acts: RunActs
    due: dict[int, Any]
    queued: set[int]
    woken: set[int]
    listings: dict[int, Listing] = dataclasses.field(default_factory=dict)
    looking: set[int] = dataclasses.field(default_factory=set)
    """Schedules whose folder is being looked through: they stay due."""
    held: Holdings | None = None
    report: TickReport = dataclasses.field(default_factory=TickReport)

    @property
    def schedules(self) -> list[int]:
        return sorted(self.due.keys() | self.queued | self.woken)


def tick(
    metadata: Metadata,
    now: dt.datetime,
    acts: RunActs,
    *,
    roots: Sequence[Path] = (),
    looks: FolderLooks | None = None,
) -> TickReport:
    """Decide everything whose time has come.

    Args:
        metadata: the service's database.
        now: what time it is.
        acts: how runs are started and cancelled.
        roots: folders in which arriving files may be watched.
        looks: at such folders, of one turn after the other.

    Raises:
        ExternalFailure: (CTL-002) the database does not answer; nothing is half done.
    """
    with metadata.begin() as connection:
        turn = _Turn(now, acts, _due(connection, now), schedules_with_queue(connection), woken(connection, now))
    _look_at_files(turn, roots, looks or FolderLooks())
    ids = turn.schedules
    for first in range(0, len(ids), _BATCH):
        with metadata.begin() as connection:
            rows = locked(connection, ids[first : first + _BATCH])
            turn.held = holdings(connection, [row.job_id for row in rows])
            for row in rows:
                _decide(connection, turn, row)
    turn.report.decided += continue_backfills(metadata, now, acts, turn.report.stuck_backfills)
    return turn.report


def _due(connection: Connection, now: dt.datetime) -> dict[int, Any]:
    columns = (schedule.c.id, schedule.c.schedule_type, schedule.c.spec, schedule.c.next_trigger_time)
    found = select(*columns).where(schedule.c.enabled, schedule.c.next_trigger_time <= now)
    return {row.id: row for row in connection.execute(found.order_by(schedule.c.next_trigger_time).limit(_MOST_DUE))}


def _look_at_files(turn: _Turn, roots: Sequence[Path], looks: FolderLooks) -> None:
    """Folders are looked through before the transaction: it must be short, and a folder can be slow."""
    wanted: dict[int, DueLook] = {}
    for row in turn.due.values():
        try:
            pattern = watched_pattern(schedule_spec(row.spec)) if row.schedule_type == "EVENT" else None
        except MillstreamError as problem:
            turn.report.failures.append((row.id, problem))
        else:
            if pattern is not None:
                wanted[row.id] = DueLook(pattern, row.next_trigger_time)
    found = looks.found(wanted, roots)
    for id in wanted:
        listing = found.get(id)
        if isinstance(listing, Exception):
            turn.report.failures.append((id, listing))
        elif listing is not None:
            turn.listings[id] = listing
        else:
            turn.looking.add(id)


def _decide(connection: Connection, turn: _Turn, row: Row[Any]) -> None:
    """Decide for one schedule; what goes wrong there does not stand in the way of others."""
    try:
        with connection.begin_nested():
            results = _results(connection, turn, row)
    except (ExternalFailure, OperationalError, InterfaceError):
        raise
    except Exception as problem:
        turn.report.failures.append((row.id, problem))
    else:
        turn.report.decided += [(row.job_id, result) for result in results]


def _results(connection: Connection, turn: _Turn, row: Row[Any]) -> list[FireResult]:
    stored = read(row)
    if not stored.enabled:
        keep(connection, stored, None)  # its job was deleted, or it was paused just now
        return []
    fires = JobFires(connection, stored, turn.acts, turn.now, turn.held)
    results = start_waiting(fires) if stored.id in turn.queued and stored.runs_jobs else []
    if stored.id in turn.looking:
        return results
    if stored.is_due(turn.now):
        # A folder that another has looked through meanwhile was looked through too early by us.
        is_same_look = stored.id in turn.due and turn.due[stored.id].next_trigger_time == stored.next_time
        return results + decide_due(fires, turn.listings.get(stored.id) if is_same_look else None)
    if stored.id in turn.woken:
        return results + decide_ends(fires)
    if results:
        keep(connection, stored, stored.next_time)
    return results
