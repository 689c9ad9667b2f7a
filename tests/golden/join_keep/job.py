"""Rows of a join without bounds are forgotten some time after they came; a forgotten row has no partner."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

TICK = dict(ADVANCE_CLOCK("10s"))


def inputs():
    left = [{"side": "l", "k": "x", "n": 1}, {"side": "l", "k": "y", "n": 2}]
    return {
        "in": [
            *left,
            TICK,
            {"side": "r", "k": "x", "n": 10},
            TICK,
            {"side": "r", "k": "x", "n": 20},
            {"side": "r", "k": "y", "n": 30},
            TICK,
            {"side": "l", "k": "x", "n": 3},
        ]
    }


def expected():
    pairs = [("x", 1, 10), ("x", 3, 20)]
    return {"out": [{"k": key, "n": one, "r_k": key, "r_n": other} for key, one, other in pairs]}


def job():
    job = ms.Job("join-keep")
    rows = job.source("in", ms.memory([]), schema="side string, k string, n long")
    left = rows.filter("side = 'l'", id="l").select("k", "n", id="left")
    right = rows.filter("side = 'r'", id="r").select("k", "n", id="right")
    left.key_by("k").join(right.key_by("k"), prefix="r_", keep="20s", id="pairs").sink("out", ms.collect("out"))
    return job
