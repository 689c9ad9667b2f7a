"""Rows that happened near each other: a left join with a condition, and an inner one whose bounds are not included."""

from tests.golden.join_oracle import disordered, paired

import millstream as ms


def inputs():
    return {
        "left": disordered(11, 60, keys=["x", "y", "z", None], value="a", time="at"),
        "right": disordered(12, 60, keys=["x", "y", "w", None], value="b", time="at"),
    }


def expected():
    rows = inputs()

    def is_pair(one, other):
        return one["k"] is not None and one["k"] == other["k"]

    def near(one, other):
        return is_pair(one, other) and -2000 <= other["at"] - one["at"] <= 3000 and (one["a"] + other["b"]) % 4 > 0

    def inside(one, other):
        return is_pair(one, other) and -2000 < other["at"] - one["at"] < 1000

    left = paired(rows["left"], rows["right"], how="left", holds=near, columns=(["k", "a", "at"], ["b", "r_at"]))
    inner = paired(rows["left"], rows["right"], holds=inside, columns=(["k", "a"], ["b"]))
    return {"out": left, "inner": inner}


def job():
    job = ms.Job("sql-interval-join")
    one = job.source("left", ms.memory([]), schema="k string, a long, at long").event_time("at", max_delay="4s")
    other = job.source("right", ms.memory([]), schema="k string, b long, at long").event_time("at", max_delay="4s")
    job.sql(
        """
        SELECT l.*, r.b, r.at AS r_at FROM one l LEFT JOIN other r
        ON l.k = r.k AND (l.a + r.b) % 4 > 0
          AND r.at BETWEEN l.at - INTERVAL '2' SECONDS AND l.at + INTERVAL '3' SECONDS
        """,
        one=one,
        other=other,
        id="near",
    ).sink("out", ms.collect("out"))
    job.sql(
        "SELECT k, a, b FROM one JOIN other USING (k) WHERE one.at < other.at + 2000 AND other.at < one.at + 1000",
        one=one,
        other=other,
        id="inside",
    ).sink("inner", ms.collect("inner"))
    return job
