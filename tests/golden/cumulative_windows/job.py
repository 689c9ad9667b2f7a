"""Cumulative windows closed by aggregates, a reduction, a function and panes, with rows that come late."""

from tests.golden.sql_oracle import instant, rows

import millstream as ms
from millstream.testing import WATERMARK


def inputs():
    given = rows(33, 40, keys=["x", "y"])
    late = {"k": "x", "v": 1, "n": 100, "at": 3}
    return {"in": [*given, WATERMARK(30_000), late]}


def cumulated():
    found = {}
    for row in inputs()["in"][:-2]:
        start = row["at"] // 4000 * 4000
        for end in range(start + 1000, start + 4001, 1000):
            if row["at"] < end:
                found.setdefault((row["k"], start, end), []).append(row["n"])
    return found


def expected():
    found = cumulated()
    return {
        "counted": [
            {"k": k, "window_start": instant(start), "window_end": instant(end), "n": len(numbers)}
            for (k, start, end), numbers in found.items()
        ],
        "shown": [{"k": k, "span": end - start, "first": numbers[0]} for (k, start, end), numbers in found.items()],
        "panes": [
            {"k": k, "window_end": instant(end), "total": sum(numbers), "pane_timing": "ON_TIME"}
            for (k, _, end), numbers in found.items()
        ],
        "reduced": [{"k": k, "n": sum(numbers)} for (k, _, _), numbers in found.items()],
        "late": [{"n": 100}],
    }


def shown(key, window, rows):
    yield {"k": key["k"], "span": window.end - window.start, "first": rows[0]["n"]}


def summed(held, came):
    return {**held, "n": held["n"] + came["n"]}


def job():
    job = ms.Job("cumulative-windows")
    stream = job.source("in", ms.memory([]), schema="k string, v long, n long, at long").event_time(
        "at", max_delay="4s"
    )
    windows = stream.key_by("k").window(ms.cumulative("4s", "1s"))
    counted = windows.aggregate(n=ms.count(), id="c")
    counted.sink("counted", ms.collect("counted"))
    counted.late.select("n").sink("late", ms.collect("late"))
    windows.process(shown, schema="k string, span long, first long", id="s").sink("shown", ms.collect("shown"))
    panes = windows.aggregate(total=ms.sum("n"), pane=True, id="p")
    panes.select("k", "window_end", "total", "pane_timing").sink("panes", ms.collect("panes"))
    windows.reduce(summed, id="r").select("k", "n").sink("reduced", ms.collect("reduced"))
    return job
