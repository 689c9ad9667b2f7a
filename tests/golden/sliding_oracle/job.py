"""Hourly windows every ten minutes over many rows, against a plain count over all windows."""

import datetime as dt

import millstream as ms

MINUTE = 60_000
START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def inputs():
    times = [(number * 7919) % 240 * MINUTE // 2 for number in range(120)]
    return {"in": [{"user": f"u{number % 7}", "amount": number, "at": at} for number, at in enumerate(times)]}


def expected():
    windows = {}
    for row in inputs()["in"]:
        newest = row["at"] // (10 * MINUTE) * 10 * MINUTE
        for start in range(newest - 50 * MINUTE, newest + 1, 10 * MINUTE):
            windows.setdefault((row["user"], start), []).append(row["amount"])
    return {
        "out": [
            {
                "user": user,
                "window_start": START + dt.timedelta(milliseconds=start),
                "window_end": START + dt.timedelta(milliseconds=start + 60 * MINUTE),
                "n": len(amounts),
                "total": sum(amounts),
                "most": max(amounts),
            }
            for (user, start), amounts in windows.items()
        ]
    }


def job():
    job = ms.Job("sliding-oracle")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="2h")
    windows = rows.key_by("user").window(ms.sliding("1h", "10m"))
    windows.aggregate(n=ms.count(), total=ms.sum("amount"), most=ms.max("amount"), id="w").sink(
        "out", ms.collect("out")
    )
    return job
