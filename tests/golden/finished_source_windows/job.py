"""The windows of a source that has ended close before the steps behind it stop waiting for them."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

SCHEMA = "user string, at long"


def inputs():
    cut = dict(ADVANCE_CLOCK(0))
    long = [entry for at in (100, 1_500, 2_500, 3_500, 4_500) for entry in ({"user": "a", "at": at}, cut)]
    return {"short": [{"user": "a", "at": 0}], "long": long}


def expected():
    counted = {0: 3, 2_000: 2, 4_000: 1}
    joined = [{"user": "a", "n": 1, "m": 1, "start": 0}]
    return {
        "out": [{"user": "a", "start": start, "n": n} for start, n in counted.items()],
        "late": [],
        "joined": joined,
        "late_left": [],
        "late_right": [],
    }


def seconds(job, name):
    rows = job.source(name, ms.memory([]), schema=SCHEMA).event_time("at")
    return rows.key_by("user").window(ms.tumbling("1s")).aggregate(n=ms.count(), id=f"{name}-seconds")


def job():
    job = ms.Job("finished-source-windows")
    short, long = seconds(job, "short"), seconds(job, "long")
    plain = [each.select("user", "n", id=f"{each.step}-plain") for each in (short, long)]
    windows = plain[0].union(plain[1]).key_by("user").window(ms.tumbling("2s"))
    counts = windows.aggregate(n=ms.sum("n"), id="counts")
    start = "CAST(unix_millis(window_start) AS BIGINT)"
    counts.select("user", "n", start=start).sink("out", ms.collect("out"))
    counts.late.sink("late", ms.collect("late"))
    both = plain[0].key_by("user").window(ms.tumbling("1s")).join(plain[1].key_by("user"), prefix="r_", id="both")
    both.select("user", "n", m="r_n", start=start).sink("joined", ms.collect("joined"))
    both.late.sink("late_left", ms.collect("late_left"))
    both.side_output("late_right").sink("late_right", ms.collect("late_right"))
    return job
