"""Rows of the same three-second window: a full join of two window tables, and an inner one."""

from tests.golden.join_oracle import disordered, paired
from tests.golden.sql_oracle import instant

import millstream as ms


def inputs():
    return {
        "left": disordered(13, 60, keys=["x", "y", "z", None], value="a", time="at"),
        "right": disordered(14, 60, keys=["x", "y", "w", None], value="b", time="at"),
    }


def expected():
    rows, full, inner = inputs(), [], []

    def holds(one, other):
        return one["k"] is not None and one["k"] == other["k"]

    for start in range(0, 30_000, 3000):
        sides = [[row for row in rows[side] if start <= row["at"] < start + 3000] for side in ("left", "right")]
        pairs = paired(*sides, how="full", holds=holds, columns=(["k", "a"], ["r_k", "b"]))
        full += [{**row, "window_start": instant(start)} for row in pairs]
        inner += [
            {"k": row["k"], "ends": instant(start + 3000), "sum": row["a"] + row["b"]}
            for row in paired(*sides, holds=holds, columns=(["k", "a"], ["b"]))
        ]
    return {"full": full, "inner": inner}


def job():
    job = ms.Job("sql-window-join")
    one = job.source("left", ms.memory([]), schema="k string, a long, at long").event_time("at", max_delay="4s")
    other = job.source("right", ms.memory([]), schema="k string, b long, at long").event_time("at", max_delay="4s")
    job.sql(
        """
        SELECT l.k, a, r.k AS r_k, b, window_start
        FROM (SELECT * FROM TUMBLE(TABLE one, DESCRIPTOR(at), INTERVAL '3' SECOND)) l
        FULL JOIN (SELECT * FROM TUMBLE(TABLE other, DESCRIPTOR(at), INTERVAL '3' SECOND)) r
        ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end
        """,
        one=one,
        other=other,
        id="full-rows",
    ).sink("full", ms.collect("full"))
    job.sql(
        """
        SELECT l.k, l.window_end AS ends, a + b AS sum
        FROM TUMBLE(TABLE one, DESCRIPTOR(at), INTERVAL '3' SECOND) l
        JOIN TUMBLE(TABLE other, DESCRIPTOR(at), INTERVAL '3' SECOND) r
        ON l.window_start = r.window_start AND l.window_end = r.window_end AND r.k = l.k
        """,
        one=one,
        other=other,
        id="inner-rows",
    ).sink("inner", ms.collect("inner"))
    return job
