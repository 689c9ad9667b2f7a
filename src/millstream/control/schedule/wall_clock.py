"""What a clock on the wall of a zone shows at an instant, when its hands are moved, and which instant a wall time means."""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import itertools
import zoneinfo

from millstream.errors import InvalidStep

_HOUR = dt.timedelta(hours=1)
_SECOND = dt.timedelta(seconds=1)


def zone_named(name: object) -> zoneinfo.ZoneInfo:
    """The time zone of that name.

    Raises:
        InvalidStep: (CTL-203) there is none.
    """
    if isinstance(name, str) and name in _zone_names():
        return zoneinfo.ZoneInfo(name)
    close = difflib.get_close_matches(str(name), _zone_names(), n=3)
    msg = "time_zone: there is no such time zone"
    known = close or "names such as Europe/Berlin, America/New_York, UTC"
    raise InvalidStep(msg, code="CTL-203", found=repr(name), known=known, hint="write its name in the IANA database")


@functools.cache
def _zone_names() -> frozenset[str]:
    # What these mean is a matter of each machine.
    return frozenset(zoneinfo.available_timezones() - {"localtime", "Factory", "posixrules"})


def offset_at(zone: zoneinfo.ZoneInfo, instant: dt.datetime) -> dt.timedelta:
    """How far the wall clock is ahead of UTC."""
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None, "zones of the database have one"
    return offset


def wall_time(zone: zoneinfo.ZoneInfo, instant: dt.datetime) -> dt.datetime:
    """What the wall clock shows, without a zone."""
    return instant.astimezone(zone).replace(tzinfo=None)


def instant_of(zone: zoneinfo.ZoneInfo, wall: dt.datetime) -> dt.datetime:
    """The instant of a wall time: the first one where it comes twice, the end of the gap where it does not come."""
    given = wall.replace(tzinfo=zone)
    first = given.astimezone(dt.UTC)
    if wall_time(zone, first) == wall:
        return first
    # In a gap the two readings lie on either side of the change.
    return _change_within(zone, given.replace(fold=1).astimezone(dt.UTC), first)


def first_change(zone: zoneinfo.ZoneInfo, after: dt.datetime, until: dt.datetime) -> dt.datetime | None:
    """The first instant in (after, until] from which another offset holds."""
    for low, high in _hours(after, until):
        if offset_at(zone, low) != offset_at(zone, high):
            return _change_within(zone, low, high)
    return None


def last_change(zone: zoneinfo.ZoneInfo, after: dt.datetime, until: dt.datetime) -> dt.datetime | None:
    """The last instant in (after, until] from which another offset holds."""
    for low, high in reversed(_hours(after, until)):
        if offset_at(zone, low) != offset_at(zone, high):
            return _change_within(zone, low, high)
    return None


def _hours(after: dt.datetime, until: dt.datetime) -> list[tuple[dt.datetime, dt.datetime]]:
    """Stretches of at most an hour: no zone moves its clock twice within one."""
    marks = [after]
    while marks[-1] < until:
        marks.append(min(marks[-1] + _HOUR, until))
    return list(itertools.pairwise(marks))


def _change_within(zone: zoneinfo.ZoneInfo, low: dt.datetime, high: dt.datetime) -> dt.datetime:
    """The second at which the offset of `low` gives way to that of `high`."""
    low, high = low.replace(microsecond=0), high if not high.microsecond else high.replace(microsecond=0) + _SECOND
    before = offset_at(zone, low)
    while high - low > _SECOND:
        middle = (low + (high - low) // 2).replace(microsecond=0)
        low, high = (middle, high) if offset_at(zone, middle) == before else (low, middle)
    return high
