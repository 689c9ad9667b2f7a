"""Within the allowed lateness a row gives the pairs it adds to a window that has closed; behind it, it is late."""

import millstream as ms
from millstream.testing import WATERMARK


def inputs():
    return {
        "in": [
            {"side": "l", "k": "x", "n": 1, "at": 1000},
            {"side": "r", "k": "x", "n": 10, "at": 9000},
            {"side": "l", "k": "y", "n": 2, "at": 2000},
            dict(WATERMARK(10_000)),
            {"side": "r", "k": "x", "n": 20, "at": 3000},
            {"side": "l", "k": "x", "n": 3, "at": 4000},
            {"side": "l", "k": "z", "n": 4, "at": 5000},
            dict(WATERMARK(15_000)),
            {"side": "l", "k": "x", "n": 5, "at": 9999},
            {"side": "r", "k": "x", "n": 30, "at": 9999},
            {"side": "l", "k": "x", "n": 6, "at": 15_000},
            {"side": "r", "k": "x", "n": 40, "at": 19_999},
        ]
    }


def expected():
    pairs = [("x", 1, 10), ("x", 1, 20), ("x", 3, 10), ("x", 3, 20), ("y", 2, None), ("z", 4, None), ("x", 6, 40)]
    return {
        "out": [{"k": key, "n": one, "r_n": other} for key, one, other in pairs],
        "late": [{"k": "x", "n": 5, "at": 9999}],
        "late_right": [{"k": "x", "n": 30, "at": 9999}],
    }


def job():
    job = ms.Job("join-window-late-firing")
    rows = job.source("in", ms.memory([]), schema="side string, k string, n long, at long").event_time("at")
    left = rows.filter("side = 'l'", id="l").select("k", "n", "at", id="left")
    right = rows.filter("side = 'r'", id="r").select("k", "n", "at", id="right")
    windows = left.key_by("k").window(ms.tumbling("10s"), allowed_lateness="5s")
    pairs = windows.join(right.key_by("k"), how="left", prefix="r_", id="pairs")
    pairs.select("k", "n", "r_n", id="short").sink("out", ms.collect("out"))
    pairs.late.sink("late", ms.collect("late"))
    pairs.side_output("late_right").sink("late_right", ms.collect("late_right"))
    return job
