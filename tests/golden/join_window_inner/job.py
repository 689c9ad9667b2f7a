"""Rows of the same three-second window, inner join, with a condition."""

import datetime as dt

from tests.golden.join_oracle import disordered, paired

import millstream as ms

START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def inputs():
    return {
        "left": disordered(5, 60, keys=["x", "y", "z", None], value="a", time="at"),
        "right": disordered(6, 60, keys=["x", "y", "w", None], value="b", time="at"),
    }


def expected():
    rows = inputs()

    def holds(one, other):
        return one["k"] is not None and one["k"] == other["k"] and (one["a"] + other["b"]) % 4 > 0

    out = []
    for start in range(0, 30_000, 3000):
        sides = [[row for row in rows[side] if start <= row["at"] < start + 3000] for side in ("left", "right")]
        columns = (["k", "a", "at"], ["r_k", "b", "r_at"])
        bounds = {
            "window_start": START + dt.timedelta(milliseconds=start),
            "window_end": START + dt.timedelta(milliseconds=start + 3000),
        }
        out += [row | bounds for row in paired(*sides, how="inner", holds=holds, columns=columns)]
    return {"out": out}


def job():
    job = ms.Job("join-window-inner")
    left = job.source("left", ms.memory([]), schema="k string, a long, at long").event_time("at", max_delay="4s")
    right = job.source("right", ms.memory([]), schema="k string, b long, at long").event_time("at", max_delay="4s")
    windows = left.key_by("k").window(ms.tumbling("3s"))
    pairs = windows.join(right.key_by("k"), how="inner", where="(a + b) % 4 > 0", prefix="r_", id="pairs")
    pairs.sink("out", ms.collect("out"))
    return job
