"""Windows that grow by two seconds until they have six: aggregates of each, per key and of all, and the best rows of each."""

from tests.golden.sql_oracle import instant, rows, total, values

import millstream as ms

CUMULATE = "CUMULATE(TABLE stream, DESCRIPTOR(at), INTERVAL '2' SECOND, INTERVAL '6' SECOND, INTERVAL '1' SECOND)"


def inputs():
    return {"in": rows(32, 60, keys=["x", "y", "z", None])}


def cumulated(key):
    """Rows by key and bounds of every window they are in."""
    found = {}
    for row in inputs()["in"]:
        start = (row["at"] - 1000) // 6000 * 6000 + 1000
        for end in range(start + 2000, start + 6001, 2000):
            if row["at"] < end:
                found.setdefault((key(row), start, end), []).append(row)
    return found


def expected():
    return {
        "keyed": [
            {"k": key, "rows": len(group), "total": total(values(group)), "kinds": len(set(values(group))),
             "starts": instant(start), "ends": instant(end)}
            for (key, start, end), group in cumulated(lambda row: row["k"]).items()
        ],
        "all": [
            {"rows": len(group), "ends": instant(end)} for (_, _, end), group in cumulated(lambda row: 0).items()
        ],
        "best": [
            {"n": max(group, key=lambda row: row["n"])["n"], "starts": instant(start), "ends": instant(end)}
            for (_, start, end), group in cumulated(lambda row: 0).items()
        ],
    }  # fmt: skip


def job():
    job = ms.Job("sql-cumulate")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long").event_time(
        "at", max_delay="4s"
    )
    stream.sql(
        f"""
        SELECT k, COUNT(*) AS rows, SUM(v) AS total, COUNT(DISTINCT v) AS kinds, window_start AS starts, window_end AS ends
        FROM {CUMULATE} GROUP BY k, window_start, window_end
        """,
        id="keyed-rows",
    ).sink("keyed", ms.collect("keyed"))
    text = f"SELECT COUNT(*) AS rows, window_end AS ends FROM {CUMULATE} GROUP BY window_start, window_end"
    stream.sql(text, id="all-rows").sink("all", ms.collect("all"))
    stream.sql(
        f"""
        SELECT n, window_start AS starts, window_end AS ends FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS rn FROM {CUMULATE}
        ) WHERE rn = 1
        """,
        id="best-rows",
    ).sink("best", ms.collect("best"))
    return job
