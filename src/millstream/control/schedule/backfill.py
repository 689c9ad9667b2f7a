"""Runs for intervals of the past: which there are, in which order, how many at once."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Literal, NamedTuple

from millstream.control.schedule.concurrency import MOST_RUNS
from millstream.control.schedule.cron import CronTimes
from millstream.errors import InvalidStep

Direction = Literal["oldest", "newest"]
MOST_INTERVALS = 10_000
FIRST_SLOT = 1000
"""Runs of backfills hold slots of their own, so that they do not stand in the way of the schedule's."""
_YEARS = (1970, 2200)


class Interval(NamedTuple):
    """The stretch of time that one run works for; its end is the fire."""

    start: dt.datetime
    end: dt.datetime


class BackfillPlan(NamedTuple):
    """What is asked for; `after` and `until` are instants."""

    after: dt.datetime
    until: dt.datetime
    direction: Direction = "oldest"
    max_parallel: int = 1


def check_plan(plan: BackfillPlan, now: dt.datetime) -> None:
    """Refuse what cannot be filled.

    Raises:
        InvalidStep: (CTL-209) it names the value.
    """
    asked = f"{plan.after} to {plan.until}"
    is_time = all(time.tzinfo is not None and _YEARS[0] <= time.year < _YEARS[1] for time in plan[:2])
    _demand(is_time, "from and to", asked, "times with a zone, 1970 to 2199")
    _demand(plan.after < plan.until <= now, "from and to", asked, f"from before to, and to not after {now}")
    _demand(1 <= plan.max_parallel <= MOST_RUNS, "max_parallel", plan.max_parallel, f"1 to {MOST_RUNS}")
    _demand(plan.direction in {"oldest", "newest"}, "order", plan.direction, "oldest, newest")


def intervals(times: CronTimes, plan: BackfillPlan, *, beyond: dt.datetime | None = None) -> Iterator[Interval]:
    """Intervals that lie within what is asked for, in its order; `beyond` is the end of the last one that was done."""
    forward = plan.direction == "oldest"
    if forward:
        start = beyond or _first_edge(times, plan.after)
        fires = times.from_(start) if start is not None else iter(())
    else:
        fires = _backwards(times, beyond or plan.until + dt.timedelta(microseconds=1))
    for fire in fires:
        begin = times.before(fire)
        if begin is None or begin < plan.after or fire > plan.until:
            return
        yield Interval(begin, fire)


def preview(times: CronTimes, plan: BackfillPlan) -> list[Interval]:
    """All of them.

    Raises:
        InvalidStep: (CTL-209) there are too many, or none.
    """
    found = list(itertools.islice(intervals(times, plan), MOST_INTERVALS + 1))
    shown = f"{'more than ' if len(found) > MOST_INTERVALS else ''}{min(len(found), MOST_INTERVALS)} intervals"
    _demand(1 <= len(found) <= MOST_INTERVALS, "from and to", shown, f"1 to {MOST_INTERVALS} whole intervals")
    return found


def _first_edge(times: CronTimes, after: dt.datetime) -> dt.datetime | None:
    """The first fire that is not before `after`: the first interval begins there."""
    return times.after(after - dt.timedelta(microseconds=1))


def _backwards(times: CronTimes, instant: dt.datetime) -> Iterator[dt.datetime]:
    while (fire := times.before(instant)) is not None:
        yield fire
        instant = fire


def _demand(is_met: bool, field: str, found: object, known: str) -> None:  # noqa: FBT001
    if not is_met:
        msg = f"backfill: {field} cannot be filled"
        raise InvalidStep(msg, code="CTL-209", found=str(found), known=known, hint=f"correct {field}")
