"""Rows of two streams meet whenever they come; a condition on both, columns of one name, and keys that are null."""

from tests.golden.join_oracle import disordered, paired

import millstream as ms


def inputs():
    return {
        "left": disordered(1, 70, keys=["x", "y", "z", None], value="a", time="at"),
        "right": disordered(2, 70, keys=["x", "y", "w", None], value="b", time="at"),
    }


def expected():
    rows = inputs()

    def holds(one, other):
        return one["k"] is not None and one["k"] == other["k"] and (one["a"] + other["b"]) % 3 == 0

    columns = (["k", "a", "at"], ["r_k", "b", "r_at"])
    return {"out": paired(rows["left"], rows["right"], holds=holds, columns=columns)}


def job():
    job = ms.Job("join-inner")
    left = job.source("left", ms.memory([]), schema="k string, a long, at long")
    right = job.source("right", ms.memory([]), schema="k string, b long, at long")
    pairs = left.key_by("k").join(right.key_by("k"), where="(a + b) % 3 = 0", prefix="r_", id="pairs")
    pairs.sink("out", ms.collect("out"))
    return job
