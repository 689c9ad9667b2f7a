"""Rows at the watermark or before it find no partner: they go to the late outputs of their side."""

import millstream as ms
from millstream.testing import WATERMARK


def inputs():
    return {
        "in": [
            {"side": "l", "k": "x", "n": 1, "at": 1000},
            {"side": "r", "k": "x", "n": 10, "at": 1000},
            {"side": "r", "k": "y", "n": 20, "at": 4000},
            dict(WATERMARK(5000)),
            {"side": "l", "k": "x", "n": 2, "at": 4999},
            {"side": "r", "k": "x", "n": 30, "at": 1500},
            {"side": "l", "k": "y", "n": 3, "at": 5001},
            {"side": "l", "k": "y", "n": 4, "at": 5000},
        ]
    }


def expected():
    return {
        "out": [
            {"k": "x", "n": 1, "at": 1000, "r_k": "x", "r_n": 10, "r_at": 1000},
            {"k": "y", "n": 3, "at": 5001, "r_k": "y", "r_n": 20, "r_at": 4000},
        ],
        "late": [{"k": "x", "n": 2, "at": 4999}, {"k": "y", "n": 4, "at": 5000}],
        "late_right": [{"k": "x", "n": 30, "at": 1500}],
    }


def job():
    job = ms.Job("join-interval-late")
    rows = job.source("in", ms.memory([]), schema="side string, k string, n long, at long").event_time("at")
    left = rows.filter("side = 'l'", id="l").select("k", "n", "at", id="left")
    right = rows.filter("side = 'r'", id="r").select("k", "n", "at", id="right")
    pairs = left.key_by("k").join(right.key_by("k"), within=("-2s", "2s"), prefix="r_", id="pairs")
    pairs.sink("out", ms.collect("out"))
    pairs.late.sink("late", ms.collect("late"))
    pairs.side_output("late_right").sink("late_right", ms.collect("late_right"))
    return job
