"""Rows without a partner of an interval join are not late for a window behind it: they carry the time of their last chance."""

import millstream as ms


def inputs():
    return {
        "left": [{"k": f"k{number % 5}", "a": number, "at": number * 1000} for number in range(40)],
        "right": [{"k": f"k{number % 3}", "b": number, "at": number * 1000} for number in range(40)],
    }


def expected():
    rows, counts = inputs(), {}
    for one in rows["left"]:
        near = [o["at"] for o in rows["right"] if o["k"] == one["k"] and abs(o["at"] - one["at"]) <= 2000]
        for at in [max(one["at"], time) for time in near] or [one["at"] + 2000]:
            counts[one["k"], at // 10_000] = counts.get((one["k"], at // 10_000), 0) + 1
    return {"out": [{"k": key, "n": n} for (key, _), n in counts.items()], "late": []}


def job():
    job = ms.Job("join-behind-a-join")
    left = job.source("left", ms.memory([]), schema="k string, a long, at long").event_time("at")
    right = job.source("right", ms.memory([]), schema="k string, b long, at long").event_time("at")
    pairs = left.key_by("k").join(right.key_by("k"), how="left", within=("-2s", "2s"), prefix="r_", id="pairs")
    windows = pairs.key_by("k").window(ms.tumbling("10s")).aggregate(n=ms.count(), id="count")
    windows.select("k", "n", id="short").sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
