"""Partitions of one source wait for each other, as far as the script can be read in another order; nothing is lost or late."""

import collections
import itertools

import millstream as ms

ORDER_KEY = {"rows": ["shard"]}
PARTITION_BY = {"in": "shard"}
STEPS = {"slow": 1000, "middle": 4000, "fast": 15_000}
ROWS = 15


def job():
    job = ms.Job("aligned-partitions")
    source = job.source("in", ms.memory([]), schema="shard string, n long, at long")
    rows = source.event_time("at", align="aligned-partitions", max_drift="10s")
    windows = rows.key_by("shard").window(ms.tumbling("30s")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    rows.sink("rows", ms.collect("rows"))
    return job


def inputs():
    """The partitions in turn, each with its own pace."""
    rows = [{"shard": shard, "n": n, "at": n * STEPS[shard]} for n, shard in itertools.product(range(ROWS), STEPS)]
    return {"in": rows}


def expected():
    rows = inputs()["in"]
    counts = collections.Counter((row["shard"], row["at"] // 30_000) for row in rows)
    out = [
        {"shard": shard, "window_start": instant(start), "window_end": instant(start + 1), "n": n}
        for (shard, start), n in sorted(counts.items())
    ]
    return {"out": out, "late": [], "rows": rows}


def instant(half_minutes):
    return f"1970-01-01T00:{half_minutes // 2:02}:{half_minutes % 2 * 30:02}+00:00"
