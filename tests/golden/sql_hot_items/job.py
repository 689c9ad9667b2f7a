"""The keys with the most rows in each window: counts, the most of them by the window's end, and both joined by it."""

from tests.golden.sql_oracle import instant, rows, windows

import millstream as ms

COUNTS = """
    SELECT k, COUNT(*) AS n, window_start, window_end
    FROM HOP(TABLE stream, DESCRIPTOR(at), INTERVAL '1' SECOND, INTERVAL '3' SECOND)
    GROUP BY k, window_start, window_end
    """


def inputs():
    return {"in": rows(15, 60, keys=["x", "y", "z", "w", None])}


def expected():
    counts = {key: len(group) for key, group in windows(inputs()["in"], 3000, 1000, key=lambda row: row["k"]).items()}
    starts = sorted({start for _, start in counts})
    most = {start: max(n for (_, other), n in counts.items() if other == start) for start in starts}
    return {
        "hot": [
            {"k": k, "n": n, "ends": instant(start + 3000)} for (k, start), n in counts.items() if n == most[start]
        ],
        "most": [{"most": most[start], "starts": instant(start), "ends": instant(start + 3000)} for start in starts],
        "later": [
            {
                "total": sum(n for start, n in most.items() if second <= start + 2999 < second + 5000),
                "at": instant(second),
            }
            for second in sorted({(start + 2999) // 5000 * 5000 for start in starts})
        ],
    }


def job():
    job = ms.Job("sql-hot-items")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long").event_time(
        "at", max_delay="4s"
    )
    counts = stream.sql(COUNTS, id="counts")
    most = counts.sql(
        """
        SELECT MAX(n) AS most, window_start AS starts, window_end AS ends
        FROM stream GROUP BY window_start, window_end HAVING MAX(n) > 0
        """,
        id="most-rows",
    )
    most.sink("most", ms.collect("most"))
    job.sql(
        "SELECT c.k, c.n, m.ends FROM counts c JOIN most m ON c.window_end = m.ends AND c.n = m.most",
        counts=counts,
        most=most,
        id="hot-rows",
    ).sink("hot", ms.collect("hot"))
    timed = counts.sql(
        "SELECT MAX(n) AS most, timestamp_millis(unix_millis(window_end) - 1) AS moment FROM stream GROUP BY window_end",
        id="timed",
    )
    timed.sql(
        "SELECT SUM(most) AS total, window.start AS at FROM stream GROUP BY window(moment, '5 seconds')",
        id="later-rows",
    ).sink("later", ms.collect("later"))
    return job
