"""Generated rows are the same however they are cut: a sequence by its remainder, windows by its times."""

import millstream as ms


def job():
    job = ms.Job("datagen")
    fields = {"n": {"kind": "sequence"}, "at": {"kind": "timestamp", "start": 0, "step": "1s"}}
    rows = job.source("numbers", ms.datagen(fields=fields, rows=60)).event_time("at").with_columns(kind="n % 3")
    rows.key_by("kind").aggregate(n=ms.count(), total=ms.sum("n"), emit="end", id="kinds").sink(
        "out", ms.collect("out")
    )
    windows = rows.key_by("kind").window(ms.tumbling("30s")).aggregate(n=ms.count(), first=ms.min("n"), id="w")
    windows.sink("windows", ms.collect("windows"))
    return job


def expected():
    numbers = range(60)
    kinds = [[number for number in numbers if number % 3 == kind] for kind in range(3)]
    return {
        "out": [{"kind": kind, "n": len(found), "total": sum(found)} for kind, found in enumerate(kinds)],
        "windows": [
            {"kind": kind, "window_start": start, "window_end": end, "n": 10, "first": first + kind}
            for kind in range(3)
            for start, end, first in (
                ("1970-01-01T00:00:00+00:00", "1970-01-01T00:00:30+00:00", 0),
                ("1970-01-01T00:00:30+00:00", "1970-01-01T00:01:00+00:00", 30),
            )
        ],
    }
