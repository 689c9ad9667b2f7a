"""Groups of windows that fulfil a condition; then windows over those results, by the time of the first windows."""

from tests.golden.sql_oracle import instant, rows, windows

import millstream as ms


def inputs():
    return {"in": rows(5, 60, keys=["x", "y", "z"])}


def first():
    found = windows(inputs()["in"], 1000, 1000, key=lambda row: row["k"])
    return [
        {"k": key, "n": len(group), "at": start + 999}
        for (key, start), group in found.items()
        if len(group) > 1 and key != "z"
    ]


def expected():
    second = windows(first(), 5000, 5000, key=lambda _: None)
    return {
        "first": [{"k": row["k"], "n": row["n"], "happened": instant(row["at"])} for row in first()],
        "second": [
            {"most": max(row["n"] for row in group), "groups": len(group), "starts": instant(start)}
            for (_, start), group in second.items()
        ],
    }


def job():
    job = ms.Job("sql-having")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long").event_time(
        "at", max_delay="4s"
    )
    first = stream.sql(
        """
        SELECT k, COUNT(*) AS n, window_time(window) AS happened
        FROM stream GROUP BY k, window(at, '1 second') HAVING COUNT(*) > 1 AND k <> 'z'
        """,
        id="first-rows",
    )
    first.sink("first", ms.collect("first"))
    first.sql(
        """
        SELECT MAX(n) AS most, COUNT(*) AS groups, window_start AS starts
        FROM TUMBLE(TABLE stream, DESCRIPTOR(happened), INTERVAL '5' SECONDS) GROUP BY window_start, window_end
        """,
        id="second-rows",
    ).sink("second", ms.collect("second"))
    return job
