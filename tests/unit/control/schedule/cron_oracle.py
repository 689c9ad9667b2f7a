"""Debian's cron, written down a second time: minute by minute, by what the clock on the wall shows. Slow and plain."""

import calendar
import datetime as dt
from zoneinfo import ZoneInfo

MINUTE = dt.timedelta(minutes=1)
RANGES = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def number(field, text):
    if field == 3 and text in MONTHS:
        return MONTHS.index(text) + 1
    if field == 4 and text in DAYS:
        return DAYS.index(text)
    return int(text)


def days_of_month(day):
    return calendar.monthrange(day.year, day.month)[1]


def is_last_weekday(day):
    last = day.replace(day=days_of_month(day))
    while last.weekday() > 4:
        last -= dt.timedelta(days=1)
    return day.day == last.day


def part_matches(field, part, value, day):
    if field == 2 and part == "L":
        return value == days_of_month(day)
    if field == 2 and part == "LW":
        return is_last_weekday(day)
    if field == 4 and part.endswith("L"):
        return number(field, part[:-1]) % 7 == value and day.day + 7 > days_of_month(day)
    if field == 4 and "#" in part:
        weekday, _, nth = part.partition("#")
        return number(field, weekday) % 7 == value and (day.day - 1) // 7 + 1 == int(nth)
    body, _, step = part.partition("/")
    low, high = RANGES[field]
    if body != "*":
        first, _, last = body.partition("-")
        low = number(field, first)
        high = number(field, last) if last else (RANGES[field][1] if step else low)
    values = [value, 7] if field == 4 and value == 0 else [value]
    return any(low <= each <= high and (each - low) % int(step or 1) == 0 for each in values)


def matches(expression, wall):
    fields = expression.upper().split()
    values = [wall.minute, wall.hour, wall.day, wall.month, (wall.weekday() + 1) % 7]
    good = [any(part_matches(n, part, values[n], wall) for part in fields[n].split(",")) for n in range(5)]
    is_both = fields[2].startswith("*") or fields[4].startswith("*")
    return good[0] and good[1] and good[3] and ((good[2] and good[4]) if is_both else (good[2] or good[4]))


def expected_fires(expression, zone, after, until):
    """All fires in (after, until]."""
    place, fields = ZoneInfo(zone), expression.split()
    is_wild = fields[0].startswith("*") or fields[1].startswith("*")
    minute = after.replace(second=0, microsecond=0)
    found, before = [], minute.astimezone(place)
    while (minute := minute + MINUTE) <= until:
        wall = minute.astimezone(place)
        shown = wall.replace(tzinfo=None)
        is_fire = (is_wild or wall.fold == 0) and matches(expression, shown)
        # What the clock jumped over runs at the end of the jump, unless it runs at every minute or hour anyway.
        skipped = before.replace(tzinfo=None) + MINUTE
        while not is_wild and skipped < shown and not is_fire:
            is_fire = matches(expression, skipped)
            skipped += MINUTE
        if is_fire:
            found.append(minute)
        before = wall
    return found
