"""Projections, conditions and two statements one behind the other in one text, without state."""

from tests.golden.sql_oracle import rows

import millstream as ms


def inputs():
    return {"in": rows(1, 40, keys=["x", "y", None])}


def expected():
    given = inputs()["in"]
    kept = [row for row in given if row["v"] is not None and (row["v"] > 0 or row["k"] == "x")]
    size = {True: "large", False: "small"}
    return {
        "out": [{"name": row["k"], "twice": row["v"] * 2, "size": size[row["v"] > 4]} for row in kept],
        "all": [{"k": row["k"], "n": row["n"]} for row in given if row["n"] < 5]
        + [{"k": "late", "n": -row["n"]} for row in given if row["n"] > 35],
    }


def job():
    job = ms.Job("sql-stateless")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long")
    stream.sql(
        """
        SELECT s.k AS name, v * 2 AS twice, CASE WHEN v > 4 THEN 'large' ELSE 'small' END AS size
        FROM stream AS s WHERE v > 0 OR (s.k = 'x' AND v IS NOT NULL) -- null is not above zero
        """,
        id="projected",
    ).sink("out", ms.collect("out"))
    stream.sql(
        "SELECT * EXCEPT (v, at) FROM stream WHERE n < 5 UNION ALL SELECT 'late' AS a, -n AS b FROM stream WHERE n > 35",
        id="united",
    ).sink("all", ms.collect("all"))
    return job
