"""Windows of many keys in divided pages: sliding bins, and sessions kept row by row."""

import millstream as ms
from millstream.plan.deployment import MemoryBudget

MEMORY = MemoryBudget(page_bytes=256)
KEYS = 500


def inputs():
    return {"in": [{"key": f"k{number % KEYS}", "at": number * 10} for number in range(KEYS * 3)]}


def expected():
    return {
        "sliding": [{"n": n, "windows": windows} for n, windows in counted(sliding()).items()],
        "sessions": [{"n": 3, "windows": KEYS}],
    }


def sliding():
    """Rows per key and window: size 6 s, every 3 s, one row of a key every 5 s."""
    windows = {}
    for row in inputs()["in"]:
        newest = row["at"] // 3000 * 3000
        for start in (newest - 3000, newest):
            windows[row["key"], start] = windows.get((row["key"], start), 0) + 1
    return windows


def counted(windows):
    counts = {}
    for n in windows.values():
        counts[n] = counts.get(n, 0) + 1
    return counts


def job():
    job = ms.Job("many-windows")
    rows = job.source("in", ms.memory([]), schema="key string, at long").event_time("at")
    for name, window in (("sliding", ms.sliding("6s", "3s")), ("sessions", ms.session("5500ms"))):
        counts = rows.key_by("key").window(window).aggregate(n=ms.count(), id=f"{name}-w")
        counts.key_by("n").aggregate(windows=ms.count(), emit="end", id=f"{name}-n").sink(name, ms.collect(name))
    return job
