"""Windows of two seconds per key: aggregates with conditions, expressions over them, and the columns of the window."""

from tests.golden.sql_oracle import instant, rows, total, values, windows

import millstream as ms


def inputs():
    return {"in": rows(2, 60, keys=["x", "y", "z", None])}


def expected():
    found = windows([row for row in inputs()["in"] if row["n"] % 5], 2000, 2000, key=lambda row: row["k"])
    return {
        "out": [
            {
                "k": key,
                "rows": len(group),
                "total": total(values(group)),
                "mean": sum(row["n"] for row in group) / len(group),
                "kinds": len(set(values(group))),
                "above": sum(1 for value in values(group) if value > 0),
                "window_start": instant(start),
                "ends": instant(start + 2000),
                "window_time": instant(start + 1999),
            }
            for (key, start), group in found.items()
        ]
    }


def job():
    job = ms.Job("sql-tumbling")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long").event_time(
        "at", max_delay="4s"
    )
    stream.sql(
        """
        SELECT k, COUNT(*) AS rows, SUM(v) AS total, SUM(n) / COUNT(*) AS mean, COUNT(DISTINCT v) AS kinds,
               COUNT(v) FILTER (WHERE v > 0) AS above, window_start, window_end AS ends, window_time
        FROM TUMBLE(TABLE stream, DESCRIPTOR(at), INTERVAL '2' SECOND)
        WHERE n % 5 > 0
        GROUP BY k, window_start, window_end
        """,
        id="totals",
    ).sink("out", ms.collect("out"))
    return job
