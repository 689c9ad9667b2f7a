"""Rows and windows written as plain loops: what the golden cases of SQL statements are compared with."""

import datetime as dt
import random

START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def instant(ms):
    return START + dt.timedelta(milliseconds=ms)


def rows(seed, count, *, keys, spread=4000, step=300):
    """Rows about `step` apart in time, out of order by less than `spread` milliseconds, some without a value."""
    rng = random.Random(seed)
    return [
        {
            "k": rng.choice(keys),
            "v": rng.choice([None, rng.randint(-9, 9)]),
            "n": number,
            "at": number * step + rng.randint(0, spread - 1),
        }
        for number in range(count)
    ]


def windows(given, size, slide, *, key):
    """Rows by key and start of every window they are in."""
    found = {}
    for row in given:
        newest = row["at"] // slide * slide
        for start in range(newest - size + slide, newest + 1, slide):
            found.setdefault((key(row), start), []).append(row)
    return found


def sessions(given, gap, *, key):
    """Rows by key and bounds of their session."""
    found = {}
    for name in dict.fromkeys(map(key, given)):
        mine = sorted((row for row in given if key(row) == name), key=lambda row: row["at"])
        group = []
        for row, behind in zip(mine, [*mine[1:], None], strict=True):
            group.append(row)
            if behind is None or behind["at"] > row["at"] + gap:
                found[(name, group[0]["at"], row["at"] + gap)] = group
                group = []
    return found


def values(given):
    return [row["v"] for row in given if row["v"] is not None]


def total(numbers):
    return sum(numbers) if numbers else None
