"""Firings when the watermark has passed multiples of an interval: whole prefixes of the window, then all of it."""

import millstream as ms
from millstream.testing import WATERMARK

ORDER_KEY = {"out": ["user"], "global": ["user"]}


def job():
    job = ms.Job("trigger-every-event")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="1h")
    trigger = ms.trigger.every("10s", time="event")
    pane = "concat(cast(pane_index as string), pane_timing)"
    for name, window, lateness in (("out", ms.tumbling("30s"), "10s"), ("global", ms.global_window(), 0)):
        keyed = rows.key_by("user").window(window, trigger=trigger, allowed_lateness=lateness)
        keyed.aggregate(total=ms.sum("amount"), pane=True, id=f"{name}-w").select("user", "total", pane=pane).sink(
            name, ms.collect(name)
        )
    return job


def row(user, amount, at):
    return {"user": user, "amount": amount, "at": at}


def inputs():
    return {
        "in": [
            row("a", 1, 1000),
            row("b", 2, 12_000),
            WATERMARK(9_998),
            row("a", 4, 500),
            WATERMARK(9_999),
            row("a", 8, 10_500),
            row("a", 16, 21_000),
            WATERMARK(25_000),
            row("b", 32, 26_000),
            WATERMARK(29_999),
            row("b", 64, 27_000),
        ]
    }


def expected():
    """User a: 1 and 4 by 10 s, 8 and 16 by 20 s (the later one came too), nothing new by 30 s. User b: 2, then 32, late 64."""
    out = {"a": [(5, "EARLY"), (29, "EARLY"), (29, "ON_TIME")], "b": [(2, "EARLY"), (34, "ON_TIME"), (98, "LATE")]}
    # Without an end, 16 waits for nothing: it was shown by 20 s; 64 came for a multiple that has passed and takes the next.
    whole = {"a": [(5, "EARLY"), (29, "EARLY")], "b": [(2, "EARLY"), (34, "EARLY"), (98, "EARLY")]}

    def panes(found):
        return [
            {"user": user, "total": total, "pane": f"{index}{timing}"}
            for user, some in found.items()
            for index, (total, timing) in enumerate(some)
        ]

    return {"out": panes(out), "global": panes(whole)}
