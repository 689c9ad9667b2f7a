"""Windows of three seconds every second, in both ways to write them; one grouped by an expression."""

from tests.golden.sql_oracle import instant, rows, values, windows

import millstream as ms


def inputs():
    return {"in": rows(3, 60, keys=["x", "y", "z"])}


def expected():
    given = inputs()["in"]
    by_key = windows(given, 3000, 1000, key=lambda row: row["k"])
    by_rest = windows(given, 3000, 1000, key=lambda row: row["n"] % 3)
    return {
        "flink": [
            {"k": key, "starts": instant(start), "most": max(values(group), default=None)}
            for (key, start), group in by_key.items()
        ],
        "spark": [
            {"starts": instant(start), "ends": instant(start + 3000), "rest": rest, "n": len(group)}
            for (rest, start), group in by_rest.items()
        ],
    }


def job():
    job = ms.Job("sql-hop")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long").event_time(
        "at", max_delay="4s"
    )
    stream.sql(
        """
        SELECT k, window_start AS starts, MAX(v) AS most
        FROM TABLE(HOP(TABLE stream, DESCRIPTOR(at), INTERVAL '1' SECOND, INTERVAL '3' SECONDS))
        GROUP BY k, window_start, window_end
        """,
        id="flink-rows",
    ).sink("flink", ms.collect("flink"))
    stream.sql(
        """
        SELECT window.start AS starts, window.end AS ends, n % 3 AS rest, COUNT(*) AS n
        FROM stream GROUP BY n % 3, window(at, '3 seconds', '1 second')
        """,
        id="spark-rows",
    ).sink("spark", ms.collect("spark"))
    return job
