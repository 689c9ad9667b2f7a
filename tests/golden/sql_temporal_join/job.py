"""Each row with the version of its key that was valid when it happened; then windows over the joined rows."""

from tests.golden.join_oracle import disordered
from tests.golden.sql_oracle import instant, windows

import millstream as ms


def inputs():
    return {
        "left": disordered(16, 60, keys=["x", "y", "z", None], value="a", time="at"),
        "right": disordered(17, 20, keys=["x", "y", "w"], value="b", time="since", step=900),
    }


def valid(row):
    """The newest version that is not newer than the row; of several at one instant the last that came."""
    versions = [one for one in inputs()["right"] if one["k"] == row["k"] and one["since"] <= row["at"]]
    return max(enumerate(versions), key=lambda pair: (pair[1]["since"], pair[0]))[1] if versions else None


def expected():
    joined = [row | {"b": None if (one := valid(row)) is None else one["b"]} for row in inputs()["left"]]
    found = windows([row for row in joined if row["b"] is not None], 5000, 5000, key=lambda row: row["k"])
    return {
        "out": [{"k": row["k"], "a": row["a"], "b": row["b"]} for row in joined],
        "sums": [
            {"k": key, "starts": instant(start), "total": sum(row["a"] * row["b"] for row in group)}
            for (key, start), group in found.items()
        ],
    }


def job():
    job = ms.Job("sql-temporal-join")
    rows = job.source("left", ms.memory([]), schema="k string, a long, at long").event_time("at", max_delay="4s")
    versions = job.source("right", ms.memory([]), schema="k string, b long, since long").event_time(
        "since", max_delay="4s"
    )
    named = {"rows": rows, "versions": versions}
    join = "versions FOR SYSTEM_TIME AS OF l.at AS r ON l.k = r.k"
    job.sql(f"SELECT l.k, a, b FROM rows l LEFT JOIN {join}", id="joined", **named).sink("out", ms.collect("out"))
    job.sql(
        f"""
        SELECT l.k, window.start AS starts, SUM(a * b) AS total
        FROM rows AS l JOIN {join} GROUP BY l.k, window(at, '5 seconds')
        """,
        id="totals",
        **named,
    ).sink("sums", ms.collect("sums"))
    return job
