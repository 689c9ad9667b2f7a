"""Event time declared behind a keyed step: windows follow the column it names."""

import millstream as ms

ORDER_KEY = {"out": ["parity"]}


def job():
    job = ms.Job("event-time-behind-a-key")
    rows = job.source("in", ms.memory([]), schema="user string, seen long")
    firsts = rows.key_by("user").aggregate(first=ms.min("seen"), n=ms.count(), emit="end", id="firsts")
    timed = firsts.event_time("first", max_delay="1h").with_columns(parity="n % 2")
    timed.key_by("parity").window(ms.tumbling("1m")).aggregate(users=ms.count(), id="w").sink("out", ms.collect("out"))
    return job
