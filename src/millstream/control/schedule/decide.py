"""Which fires of a schedule are due, and which of them run: a function of the clock and of what was decided before."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from millstream.control.schedule.cron import CronTimes
from millstream.control.schedule.spec import Misfire

LATE = dt.timedelta(seconds=60)
"""A fire that is decided later than this is a misfire."""
MOST_AT_ONCE = 100
"""So many missed fires run under `all`; older ones are skipped."""
MOST_LISTED = 500
"""So many missed fires get a row each; all before them share one."""


class DueFire(NamedTuple):
    """A fire whose time has come, and why it is skipped; without a reason it runs."""

    fire_time: dt.datetime
    skipped: str | None = None


class DueFires(NamedTuple):
    """What is decided now, in the order of time, and when there is something to decide again."""

    fires: tuple[DueFire, ...]
    next_time: dt.datetime | None


def decide(
    times: CronTimes, misfire: Misfire, grace: dt.timedelta, *, decided: dt.datetime, now: dt.datetime
) -> DueFires:
    """What is due in (decided, now].

    Args:
        times: when the schedule fires.
        misfire: what becomes of fires that are more than a minute late.
        grace: how late a missed fire may still run.
        decided: the last fire that was decided, or when the schedule was saved, whichever is later. A clock that goes back stays
            behind it, so nothing fires twice.
        now: what time it is.
    """
    listed, unlisted = _due(times, decided, now)
    verdicts = _POLICIES[misfire](listed, grace, now)
    return DueFires((*unlisted, *map(DueFire, listed, verdicts)), times.after(max(now, decided)))


def _due(times: CronTimes, decided: dt.datetime, now: dt.datetime) -> tuple[list[dt.datetime], list[DueFire]]:
    """Fires that get a row each, and one that stands for all that are too many."""
    due = list(itertools.islice(times.between(decided, now), MOST_LISTED + 1))
    if len(due) <= MOST_LISTED:
        return due, []
    newest: list[dt.datetime] = []
    at = now + dt.timedelta(microseconds=1)
    while len(newest) < MOST_LISTED and (fire := times.before(at)) is not None and fire > decided:
        newest.append(fire)
        at = fire
    older = times.before(at)
    assert older is not None, "there were more than are listed"
    reason = f"missed; stands for every fire since {due[0].isoformat()}: more than {MOST_LISTED} were missed"
    return newest[::-1], [DueFire(older, reason)]


def _is_late(fire: dt.datetime, now: dt.datetime) -> bool:
    return now - fire > LATE


def _lateness(fire: dt.datetime, now: dt.datetime) -> str:
    return f"missed by {(now - fire).total_seconds():.0f} s"


def _skip(due: Sequence[dt.datetime], grace: dt.timedelta, now: dt.datetime) -> list[str | None]:
    del grace
    return [f"{_lateness(fire, now)}; misfire: skip" if _is_late(fire, now) else None for fire in due]


def _one(due: Sequence[dt.datetime], grace: dt.timedelta, now: dt.datetime) -> list[str | None]:
    """The newest stands for those before it."""
    verdicts: list[str | None] = []
    for fire in due:
        if not _is_late(fire, now):
            verdicts.append(None)
        elif now - fire > grace:
            verdicts.append(f"{_lateness(fire, now)}, longer than the grace of {grace}")
        else:
            verdicts.append(None if fire == due[-1] else f"{_lateness(fire, now)}; a newer fire stands for it")
    return verdicts


def _all(due: Sequence[dt.datetime], grace: dt.timedelta, now: dt.datetime) -> list[str | None]:
    first_kept = len(due) - MOST_AT_ONCE
    verdicts: list[str | None] = []
    for number, fire in enumerate(due):
        if _is_late(fire, now) and now - fire > grace:
            verdicts.append(f"{_lateness(fire, now)}, longer than the grace of {grace}")
        else:
            is_kept = number >= first_kept
            verdicts.append(None if is_kept else f"{_lateness(fire, now)}; more than {MOST_AT_ONCE} would run at once")
    return verdicts


_POLICIES: dict[Misfire, Callable[[Sequence[dt.datetime], dt.timedelta, dt.datetime], list[str | None]]] = {
    "skip": _skip,
    "one": _one,
    "all": _all,
}
