"""The two highest rows and the last row of each key and window of three seconds; rows that come late go aside."""

from tests.golden.sql_oracle import instant, rows, windows

import millstream as ms
from millstream.testing import WATERMARK


def inputs():
    return {"in": [*rows(34, 50, keys=["x", "y", None]), WATERMARK(60_000), {"k": "x", "v": 1, "n": 100, "at": 9}]}


def expected():
    found = windows(inputs()["in"][:-2], 3000, 3000, key=lambda row: row["k"])
    order = {window: sorted(group, key=lambda row: (row["n"] % 7, row["n"])) for window, group in found.items()}
    return {
        "two": [
            {
                "k": key,
                "n": row["n"],
                "window_start": instant(start),
                "window_end": instant(start + 3000),
                "place": rank,
            }
            for (key, start), group in order.items()
            for rank, row in enumerate(group[:2], 1)
        ],
        "last": [
            {"k": key, "n": max(row["n"] for row in group), "window_end": instant(start + 3000)}
            for (key, start), group in order.items()
        ],
        "late": [{"n": 100}],
    }


def job():
    job = ms.Job("window-top-n")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long").event_time(
        "at", max_delay="4s"
    )
    windows = stream.with_columns(rest="n % 7").key_by("k").window(ms.tumbling("3s"))
    two = windows.top_n(2, by="rest, n", rank="place", id="t")
    two.select("k", "n", "window_start", "window_end", "place").sink("two", ms.collect("two"))
    two.late.select("n").sink("late", ms.collect("late"))
    last = windows.deduplicate(keep="last", id="d")
    last.select("k", "n", "window_end").sink("last", ms.collect("last"))
    return job
