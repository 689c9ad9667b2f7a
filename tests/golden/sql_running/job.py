"""Running aggregates: per key, of all rows, and over the aggregates of an inner statement when the input ends."""

from tests.golden.sql_oracle import rows, total, values

import millstream as ms

LAST_BY = {"epoch": ["k"], "all": ["one"]}


def inputs():
    return {"in": rows(7, 60, keys=["x", "y", None])}


def expected():
    given = inputs()["in"]
    groups = {key: [row for row in given if row["k"] == key] for key in ("x", "y", None)}
    counts = [
        {"k": key, "n": len(group), "total": total(values(group)), "first": values(group)[0]}
        for key, group in groups.items()
    ]
    return {
        "epoch": counts,
        "all": [{"one": 1, "n": len(given), "mean": sum(values(given)) / len(values(given))}],
        "most": [{"most": max(row["n"] for row in counts), "keys": 3}],
    }


def job():
    job = ms.Job("sql-running")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long")
    counts = "SELECT k, COUNT(*) AS n, SUM(v) AS total, FIRST(v) IGNORE NULLS AS first FROM stream GROUP BY k"
    stream.sql(counts, id="counts").sink("epoch", ms.collect("epoch"))
    stream.sql("SELECT 1L AS one, COUNT(*) AS n, AVG(v) AS mean FROM stream", id="all-rows", emit="row").sink(
        "all", ms.collect("all")
    )
    stream.sql(f"SELECT MAX(n) AS most, COUNT(*) AS keys FROM ({counts}) AS c", id="most-rows", emit="end").sink(
        "most", ms.collect("most")
    )
    return job
