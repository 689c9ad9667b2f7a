"""Each combination of values once, nulls as one value."""

from tests.golden.sql_oracle import rows

import millstream as ms


def inputs():
    return {"in": rows(6, 60, keys=["x", "y", None])}


def expected():
    found = {(row["k"], None if row["v"] is None else row["v"] % 2 == 0): None for row in inputs()["in"]}
    made = [{"k": key, "even": even} for key, even in found]
    return {"out": made, "end": made}


def job():
    job = ms.Job("sql-distinct")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long")
    text = "SELECT DISTINCT k, v % 2 = 0 AS even FROM stream"
    stream.sql(text, id="once").sink("out", ms.collect("out"))
    stream.sql(text, id="at-end", emit="end").sink("end", ms.collect("end"))
    return job
