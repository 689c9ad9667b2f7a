"""Rows meet once for each sliding window they share."""

from tests.golden.join_oracle import disordered

import millstream as ms


def inputs():
    return {
        "left": disordered(7, 60, keys=["x", "y", "z"], value="a", time="at"),
        "right": disordered(8, 60, keys=["x", "y", "w"], value="b", time="at"),
    }


def expected():
    rows, counts = inputs(), {}
    for start in range(-2000, 30_000, 1000):
        for one in rows["left"]:
            for other in rows["right"]:
                is_inside = all(start <= row["at"] < start + 3000 for row in (one, other))
                if is_inside and one["k"] == other["k"]:
                    counts[one["k"]] = counts.get(one["k"], 0) + 1
    return {"out": [{"k": key, "pairs": pairs} for key, pairs in counts.items()]}


def job():
    job = ms.Job("join-window-sliding")
    left = job.source("left", ms.memory([]), schema="k string, a long, at long").event_time("at", max_delay="4s")
    right = job.source("right", ms.memory([]), schema="k string, b long, at long").event_time("at", max_delay="4s")
    pairs = left.key_by("k").window(ms.sliding("3s", "1s")).join(right.key_by("k"), prefix="r_", id="pairs")
    pairs.key_by("k").aggregate(pairs=ms.count(), emit="end", id="count").sink("out", ms.collect("out"))
    return job
