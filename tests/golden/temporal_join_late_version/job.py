"""A version that comes late is valid for the rows to come, and is shown as late: rows before it met an older one."""

import millstream as ms
from millstream.testing import WATERMARK


def version(k, n, at):
    return {"side": "r", "k": k, "n": n, "at": at}


def order(k, n, at):
    return {"side": "l", "k": k, "n": n, "at": at}


def inputs():
    return {
        "in": [
            version("x", 1, 0),
            version("y", 2, 900),
            order("x", 10, 1_000),
            dict(WATERMARK(2_000)),
            version("x", 3, 1_500),
            version("x", 4, 500),  # older than the one before
            version("y", 5, 900),  # of the same instant as one that is there: the last to come counts
            version("z", 6, 2_000),  # at the watermark itself
            order("x", 11, 1_800),
            order("x", 12, 2_001),
            order("y", 13, 3_000),
            order("z", 14, 3_000),
            dict(WATERMARK(5_000)),
            order("x", 15, 6_000),
            version("x", 7, 5_500),
            dict(WATERMARK(7_000)),
            version("x", 8, 4_000),  # replaced before it came
            order("x", 16, 8_000),
        ]
    }


def expected():
    rated = {10: ("x", 1_000, 1), 12: ("x", 2_001, 3), 13: ("y", 3_000, 5), 14: ("z", 3_000, 6)}
    rated |= {15: ("x", 6_000, 7), 16: ("x", 8_000, 7)}
    late = [("x", 3, 1_500), ("x", 4, 500), ("y", 5, 900), ("z", 6, 2_000), ("x", 8, 4_000)]
    return {
        "out": [{"k": k, "n": n, "at": at, "r_n": rate} for n, (k, at, rate) in rated.items()],
        "late": [{"k": "x", "n": 11, "at": 1_800}],
        "late_right": [{"k": k, "n": n, "at": at} for k, n, at in late],
    }


def job():
    job = ms.Job("temporal-join-late-version")
    rows = job.source("in", ms.memory([]), schema="side string, k string, n long, at long").event_time("at")
    orders = rows.filter("side = 'l'", id="l").select("k", "n", "at", id="orders")
    versions = rows.filter("side = 'r'", id="r").select("k", "n", "at", id="versions")
    rated = orders.key_by("k").temporal_join(versions.key_by("k"), how="left", prefix="r_", id="rated")
    rated.select("k", "n", "at", "r_n").sink("out", ms.collect("out"))
    rated.late.sink("late", ms.collect("late"))
    rated.side_output("late_right").sink("late_right", ms.collect("late_right"))
    return job
