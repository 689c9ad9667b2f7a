"""A stream joined with itself, and the pairs counted: a join between two keyed steps."""

import millstream as ms


def inputs():
    return {"in": [{"k": f"k{number % 3}", "n": number} for number in range(20)]}


def expected():
    sizes = {"k0": 7, "k1": 7, "k2": 6}
    return {"out": [{"k": key, "pairs": size * (size - 1) // 2} for key, size in sizes.items()]}


def job():
    job = ms.Job("join-self")
    rows = job.source("in", ms.memory([]), schema="k string, n long")
    pairs = rows.key_by("k").join(rows.key_by("k"), prefix="r_", where="n < r_n", id="pairs")
    pairs.key_by("k").aggregate(pairs=ms.count(), emit="end", id="count").sink("out", ms.collect("out"))
    return job
