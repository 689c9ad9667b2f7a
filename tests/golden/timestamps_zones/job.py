"""Instants written in other offsets are the same instants; windows align to UTC."""

import millstream as ms

ORDER_KEY = {"out": ["user"], "plain": ["user"]}


def job():
    job = ms.Job("timestamps-zones")
    rows = job.source("in", ms.memory([]), schema="user string, at timestamp").event_time("at", max_delay="1d")
    rows.with_columns(hour="hour(at)").sink("plain", ms.collect("plain"))
    windows = rows.key_by("user").window(ms.tumbling("1h"))
    windows.aggregate(n=ms.count(), first=ms.min("at"), last=ms.max("at"), id="w").sink("out", ms.collect("out"))
    rows.key_by("at").aggregate(n=ms.count(), emit="end", id="by-at").sink("keys", ms.collect("keys"))
    return job
