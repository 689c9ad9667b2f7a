"""The best rows of windows that overlap, with ties and without, and what is counted and ranked of them again."""

from tests.golden.sql_oracle import instant, rows, windows

import millstream as ms

HOP = "HOP(TABLE stream, DESCRIPTOR(at), INTERVAL '1' SECOND, INTERVAL '3' SECOND)"


def inputs():
    return {"in": rows(31, 60, keys=["x", "y", None])}


def value(row):
    """Null is the smallest value."""
    return -99 if row["v"] is None else row["v"]


def expected():
    found = windows([row for row in inputs()["in"] if row["n"] != 5], 3000, 1000, key=lambda row: row["k"])
    two = {
        (key, start): sorted(group, key=lambda row: (-value(row), row["n"]))[:2]
        for (key, start), group in found.items()
    }
    tied = [
        {"k": key, "n": row["n"], "at": instant(start + 2999), "place": 1 + sum(value(o) > value(row) for o in group)}
        for (key, start), group in found.items()
        for row in group
    ]
    return {
        "two": [
            {"k": key, "n": row["n"], "v": row["v"], "starts": instant(start), "rn": rank}
            for (key, start), group in two.items()
            for rank, row in enumerate(group, 1)
            if row["n"] > 9
        ],
        "tied": [row for row in tied if row["place"] <= 2],
        "counted": [
            {
                "sums": sum(row["n"] for (_, other), group in two.items() if other == start for row in group),
                "ends": instant(start + 3000),
            }
            for start in {start for _, start in two}
        ],
    }


def job():
    job = ms.Job("sql-window-top-n")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long").event_time(
        "at", max_delay="4s"
    )
    two = f"""
        SELECT k, n, v, window_start AS starts, window_end, rn FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY k, window_start, window_end ORDER BY v DESC, n) AS rn FROM {HOP} WHERE n <> 5
        ) WHERE rn <= 2
        """
    best = stream.sql(two, id="best")
    best.sql("SELECT k, n, v, starts, rn FROM stream WHERE n > 9", id="two-rows").sink("two", ms.collect("two"))
    best.sql("SELECT SUM(n) AS sums, window_end AS ends FROM stream GROUP BY window_end", id="counted-rows").sink(
        "counted", ms.collect("counted")
    )
    stream.sql(
        f"""
        SELECT * FROM (
          SELECT k, n, window_time AS at, RANK() OVER (PARTITION BY window_start, k, window_end ORDER BY v DESC) AS place
          FROM {HOP} WHERE n <> 5
        ) WHERE place < 3
        """,
        id="tied-rows",
    ).sink("tied", ms.collect("tied"))
    return job
