"""Rows that happened between two seconds before and three behind each other, right join, with a condition."""

from tests.golden.join_oracle import disordered, paired

import millstream as ms


def inputs():
    return {
        "left": disordered(3, 60, keys=["x", "y", "z", None], value="a", time="at"),
        "right": disordered(4, 60, keys=["x", "y", "w", None], value="b", time="at"),
    }


def expected():
    rows = inputs()

    def holds(one, other):
        is_near = -2000 <= other["at"] - one["at"] <= 3000
        return one["k"] is not None and one["k"] == other["k"] and is_near and (one["a"] + other["b"]) % 4 > 0

    columns = (["k", "a", "at"], ["r_k", "b", "r_at"])
    return {"out": paired(rows["left"], rows["right"], how="right", holds=holds, columns=columns)}


def job():
    job = ms.Job("join-interval-right")
    left = job.source("left", ms.memory([]), schema="k string, a long, at long").event_time("at", max_delay="4s")
    right = job.source("right", ms.memory([]), schema="k string, b long, at long").event_time("at", max_delay="4s")
    pairs = left.key_by("k").join(
        right.key_by("k"), how="right", within=("-2s", "3s"), where="(a + b) % 4 > 0", prefix="r_", id="pairs"
    )
    pairs.sink("out", ms.collect("out"))
    return job
