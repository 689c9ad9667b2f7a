"""The best rows of each key: two with their ranks, and one; the last row said per key and rank counts."""

from tests.golden.sql_oracle import rows

import millstream as ms

LAST_BY = {"two": ["k", "rn"], "one": ["rest"]}


def inputs():
    return {"in": rows(8, 60, keys=["x", "y", None])}


def best(given, count):
    """Null is the smallest value."""
    order = sorted(given, key=lambda row: (-(-99 if row["v"] is None else row["v"]), row["n"]))
    return list(enumerate(order[:count], 1))


def expected():
    given = inputs()["in"]
    by_key = [[row for row in given if row["k"] == key] for key in ("x", "y", None)]
    by_rest = [[row for row in given if row["n"] % 4 == rest and row["n"] > 3] for rest in range(4)]
    two = [{"k": row["k"], "v": row["v"], "n": row["n"], "rn": rank} for rows in by_key for rank, row in best(rows, 2)]
    return {
        "two": two,
        "end": two,
        "one": [{"rest": row["n"] % 4, "v": row["v"]} for rows in by_rest for _, row in best(rows, 1)],
    }


def job():
    job = ms.Job("sql-top-n")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long")
    two = """
        SELECT * EXCEPT (at) FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, n) AS rn FROM stream
        ) WHERE rn <= 2
        """
    stream.sql(two, id="two-rows").sink("two", ms.collect("two"))
    stream.sql(two, id="end-rows", emit="end").sink("end", ms.collect("end"))
    stream.sql(
        """
        SELECT rest, v FROM (
          SELECT n % 4 AS rest, v, ROW_NUMBER() OVER (PARTITION BY n % 4 ORDER BY v DESC, n) AS rn FROM stream WHERE n > 3
        ) AS ranked WHERE ranked.rn = 1
        """,
        id="one-rows",
    ).sink("one", ms.collect("one"))
    return job
