"""What each kind of schedule does when its time has come."""

from __future__ import annotations

import dataclasses
import datetime as dt

from millstream.control.schedule.arrivals import Listing, Watched, look
from millstream.control.schedule.cron import CronTimes
from millstream.control.schedule.decide import decide
from millstream.control.schedule.firing import FireResult, Firing, JobFires
from millstream.control.schedule.rows import keep
from millstream.control.schedule.spec import ScheduleSpec
from millstream.control.schedule.upstream import SETTLED, follow_ends

CRON = "cron"
"""The cause of a fire of the clock."""


def first_time(spec: ScheduleSpec, now: dt.datetime) -> dt.datetime | None:
    """When there is something to decide for a schedule that is saved, or resumed, now."""
    if spec.times is not None:
        return spec.times.after(now)
    if spec.waits_for:
        return now + SETTLED
    return now if watched_pattern(spec) is not None else None


def watched_pattern(spec: ScheduleSpec) -> str | None:
    """The files that a schedule waits for, if it does."""
    return spec.event.file if spec.event is not None else None


def decide_due(fires: JobFires, listing: Listing | None) -> list[FireResult]:
    """Decide what is due for a schedule, and when to look at it again."""
    spec, next_time = fires.stored.spec, None
    firings: list[Firing] = []
    if spec.times is not None:
        firings, next_time = _by_clock(fires, spec.times)
    elif spec.waits_for:
        return decide_ends(fires)
    elif watched_pattern(spec) is not None:
        firings, next_time = _by_files(fires, listing), fires.now + spec.poll_time
    return _fired(fires, firings, next_time)


def decide_ends(fires: JobFires) -> list[FireResult]:
    """Decide what the ends of other jobs' runs make; the same end again changes nothing."""
    firings, is_more = follow_ends(fires)
    return _fired(fires, firings, fires.now if is_more else fires.now + SETTLED)


def _fired(fires: JobFires, firings: list[Firing], next_time: dt.datetime | None) -> list[FireResult]:
    results = [result for firing in firings if (result := fires.fire(firing)) is not None]
    keep(fires.connection, fires.stored, next_time)
    return results


def _by_clock(fires: JobFires, times: CronTimes) -> tuple[list[Firing], dt.datetime | None]:
    stored = fires.stored
    due = decide(times, stored.spec.misfire, stored.spec.grace_time, decided=stored.decided, now=fires.now)
    if due.fires:
        stored.state["until"] = due.fires[-1].fire_time.isoformat()
    firings = [
        Firing(at, CRON, times.interval(at) if skipped is None else None, skipped=skipped) for at, skipped in due.fires
    ]
    return firings, due.next_time


def _by_files(fires: JobFires, listing: Listing | None) -> list[Firing]:
    """Files have no time of their own that could be trusted: they fire at the time of the look that found them settled."""
    stored = fires.stored
    if listing is None:
        return []
    watched = Watched(**stored.state.get("files", {}))
    arrived = look(watched, listing)
    stored.state["files"] = dataclasses.asdict(watched)
    return [Firing(stored.next_time or fires.now, each.cause, value=each.path) for each in arrived]
