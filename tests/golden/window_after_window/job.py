"""Results of a window carry the last instant of it as event time and are windowed again."""

import millstream as ms

ORDER_KEY = {"out": ["n"]}


def job():
    job = ms.Job("window-after-window")
    rows = job.source("in", ms.memory([]), schema="user string, at long").event_time("at", max_delay="5m")
    minutes = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="minutes")
    pairs = (
        minutes.key_by("n")
        .window(ms.tumbling("2m"))
        .aggregate(users=ms.count(), first=ms.min("window_start"), id="pairs")
    )
    pairs.sink("out", ms.collect("out"))
    return job
