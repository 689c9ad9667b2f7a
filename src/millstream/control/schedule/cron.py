"""Cron expressions in a time zone, by the rules of Debian's cron.

cronsim walks over wall times; which instants these are is decided here. A job at fixed times runs once where its time comes
twice, and at the end of the gap where it does not come. A job with `*` in minutes or hours runs by what the clock shows.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import itertools
import zoneinfo
from collections.abc import Iterator

from cronsim import CronSim, CronSimError

from millstream.control.schedule.cron_fields import checked_expression
from millstream.control.schedule.wall_clock import (
    first_change,
    instant_of,
    last_change,
    offset_at,
    wall_time,
    zone_named,
)
from millstream.errors import InvalidStep

_DAY = dt.timedelta(days=1)
_SECOND = dt.timedelta(seconds=1)
_NEAR = 2 * _DAY
"""Beyond so much no change of the clock brings a wall time back that was passed already."""
_LONGEST_OVERLAP = dt.timedelta(hours=3)
_INSTANT = dt.timedelta(microseconds=1)


@dataclasses.dataclass(frozen=True, slots=True)
class CronTimes:
    """When an expression fires in a time zone. Instants are UTC, to the second."""

    expression: str
    zone: zoneinfo.ZoneInfo

    @property
    def is_fixed(self) -> bool:
        """Whether minutes and hours are named: such a job runs once a day, whatever the clock does."""
        minutes, hours, *_ = self.expression.split()
        return not minutes.startswith("*") and not hours.startswith("*")

    def after(self, instant: dt.datetime) -> dt.datetime | None:
        """The first fire behind an instant; `None` if there is none for 50 years."""
        instant = instant.astimezone(dt.UTC)
        return self._fixed_after(instant) if self.is_fixed else self._shown_after(instant)

    def before(self, instant: dt.datetime) -> dt.datetime | None:
        """The last fire before an instant; `None` if there is none for 50 years."""
        instant = instant.astimezone(dt.UTC)
        return self._fixed_before(instant) if self.is_fixed else self._shown_before(instant)

    def from_(self, instant: dt.datetime) -> Iterator[dt.datetime]:
        """All fires behind an instant, in order."""
        while (fire := self.after(instant)) is not None:
            yield fire
            instant = fire

    def between(self, after: dt.datetime, until: dt.datetime) -> Iterator[dt.datetime]:
        """All fires in (after, until], in order."""
        return itertools.takewhile(lambda fire: fire <= until, self.from_(after))

    def interval(self, fire: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
        """The stretch of time a fire works for: from the fire before it; the first one ever has an empty one."""
        return self.before(fire) or fire, fire

    def _fixed_after(self, instant: dt.datetime) -> dt.datetime | None:
        for wall in _walk(self.expression, wall_time(self.zone, instant)):
            fire = instant_of(self.zone, wall)
            if fire > instant:
                return fire
        return None

    def _fixed_before(self, instant: dt.datetime) -> dt.datetime | None:
        start = wall_time(self.zone, instant)
        if last_change(self.zone, instant - _LONGEST_OVERLAP, instant) is not None:
            # Where the clock was just put back, it has shown later times already.
            start += _LONGEST_OVERLAP
        for wall in _walk(self.expression, start, is_back=True):
            fire = instant_of(self.zone, wall)
            if fire < instant:
                return fire
        return None

    def _shown_after(self, instant: dt.datetime) -> dt.datetime | None:
        """Fires are looked for behind `start`, by the offset that holds from `known` on."""
        start = known = instant
        while True:
            offset = offset_at(self.zone, known)
            wall = next(_walk(self.expression, _bare(start + offset)), None)
            if wall is None:
                return None
            fire = wall.replace(tzinfo=dt.UTC) - offset
            change = first_change(self.zone, known, min(fire, known + _NEAR))
            if change is not None:
                start, known = change - _SECOND, change
            elif fire - known <= _NEAR:
                return fire
            else:
                start = known = fire - _DAY

    def _shown_before(self, instant: dt.datetime) -> dt.datetime | None:
        """Fires are looked for before `end`, by the offset that holds until then."""
        end = instant
        while True:
            offset = offset_at(self.zone, end - _INSTANT)
            wall = next(_walk(self.expression, _bare(end + offset), is_back=True), None)
            if wall is None:
                return None
            fire = wall.replace(tzinfo=dt.UTC) - offset
            change = last_change(self.zone, max(fire, end - _NEAR), end - _INSTANT)
            if change is not None:
                end = change
            elif end - fire <= _NEAR:
                return fire
            else:
                end = fire + _DAY


def _bare(instant: dt.datetime) -> dt.datetime:
    return instant.replace(tzinfo=None)


def _walk(expression: str, start: dt.datetime, *, is_back: bool = False) -> Iterator[dt.datetime]:
    """Wall times that match, away from `start`, without it."""
    return iter(CronSim(expression, start, reverse=is_back))


@functools.lru_cache(maxsize=4096)
def cron_times(expression: str, zone: str) -> CronTimes:
    """A cron expression of five fields in a time zone, checked.

    Raises:
        InvalidStep: (CTL-201) a field is wrong, (CTL-202) it never fires, (CTL-203) the zone is unknown.
    """
    times = CronTimes(checked_expression(expression), zone_named(zone))
    try:
        fires = times.after(dt.datetime(2000, 1, 1, tzinfo=dt.UTC))
    except CronSimError:
        fires = None
    if fires is None:
        msg = "cron: the expression never fires"
        hint = "correct the day, the month or the weekday"
        raise InvalidStep(msg, code="CTL-202", found=repr(expression), known="a date that exists", hint=hint)
    return times
