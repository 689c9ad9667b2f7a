"""Sources of an alignment group wait for each other, and every row arrives in time all the same."""

import collections

import millstream as ms

ORDER_KEY = {"out": ["user"]}
SCHEMA = "user string, at long"


def job():
    job = ms.Job("aligned-sources")
    aligned = {"align": "aligned-sources", "max_drift": "20s"}
    slow = job.source("slow", ms.memory([]), schema=SCHEMA).event_time("at", **aligned)
    fast = job.source("fast", ms.memory([]), schema=SCHEMA).event_time("at", **aligned)
    windows = slow.union(fast).key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job


def inputs():
    """One source moves on by a second with each row, the other one by ten."""
    slow = [{"user": "ab"[number % 2], "at": number * 1000} for number in range(40)]
    fast = [{"user": "ab"[number % 2], "at": number * 10_000} for number in range(30)]
    return {"slow": slow, "fast": fast}


def expected():
    counts = collections.Counter((row["user"], row["at"] // 60_000) for rows in inputs().values() for row in rows)
    out = [
        {"user": user, "window_start": instant(minute), "window_end": instant(minute + 1), "n": n}
        for (user, minute), n in sorted(counts.items())
    ]
    return {"out": out, "late": []}


def instant(minute):
    return f"1970-01-01T00:{minute:02}:00+00:00"
