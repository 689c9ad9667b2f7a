"""Sessions per key, in both ways to write them, and of all rows."""

from tests.golden.sql_oracle import instant, rows, sessions, total, values

import millstream as ms


def inputs():
    return {"in": rows(4, 60, keys=["x", "y", "z", "w", None], step=900)}


def expected():
    given = inputs()["in"]
    by_key = sessions(given, 2000, key=lambda row: row["k"])
    return {
        "flink": [
            {"k": key, "window_start": instant(start), "window_end": instant(end), "total": total(values(group))}
            for (key, start, end), group in by_key.items()
        ],
        "spark": [{"k": key, "starts": instant(start), "n": len(group)} for (key, start, _), group in by_key.items()],
        "all": [
            {"n": len(group), "ends": instant(end)}
            for (_, _, end), group in sessions(given, 1000, key=lambda _: None).items()
        ],
    }


def job():
    job = ms.Job("sql-session")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long").event_time(
        "at", max_delay="4s"
    )
    stream.sql(
        """
        SELECT k, window_start, window_end, SUM(v) AS total
        FROM SESSION(TABLE stream PARTITION BY k, DESCRIPTOR(at), INTERVAL '2' SECONDS)
        GROUP BY k, window_start, window_end
        """,
        id="flink-rows",
    ).sink("flink", ms.collect("flink"))
    stream.sql(
        """
        SELECT k, session_window.start AS starts, COUNT(*) AS n
        FROM stream GROUP BY session_window(at, '2 seconds'), k
        """,
        id="spark-rows",
    ).sink("spark", ms.collect("spark"))
    stream.sql(
        """
        SELECT COUNT(*) AS n, window_end AS ends
        FROM SESSION(TABLE stream, DESCRIPTOR(at), INTERVAL '1' SECOND) GROUP BY window_start, window_end
        """,
        id="all-rows",
    ).sink("all", ms.collect("all"))
    return job
