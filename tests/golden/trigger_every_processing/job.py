"""Firings at multiples of an interval of the clock, where rows came since; and when the window ends."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK, WATERMARK

ORDER_KEY = {"early": ["user"], "global": ["user"], "clock": ["user"], "alone": ["user"]}
EVERY = ms.trigger.every("20s")
WAYS = {
    "early": (ms.tumbling("1h"), ms.trigger.event_time().early(EVERY)),
    "alone": (ms.tumbling("1h"), EVERY),
    "global": (ms.global_window(), EVERY),
    "clock": (ms.tumbling("50s", time="processing"), EVERY),
}


def job():
    job = ms.Job("trigger-every-processing")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="1h")
    for name, (window, trigger) in WAYS.items():
        result = rows.key_by("user").window(window, trigger=trigger)
        result.aggregate(total=ms.sum("amount"), pane=True, id=f"{name}-w").select(
            "user", "total", pane="concat(cast(pane_index as string), pane_timing)"
        ).sink(name, ms.collect(name))
    return job


def row(user, amount):
    return {"user": user, "amount": amount, "at": 1}


def inputs():
    tick = dict(ADVANCE_CLOCK("10s"))
    rows = [row("a", 1), row("b", 2), tick, row("a", 4), tick, row("a", 8), tick, tick, tick, row("b", 16), tick]
    return {"in": [*rows, WATERMARK("1h")]}


def expected():
    """The clock: 1, 2 at 0 s, 4 at 10 s, 8 at 20 s, 16 at 50 s; multiples at 20, 40 and 60 s; the window ends at 50 s."""

    def panes(timings, **totals):
        return [
            {"user": user, "total": total, "pane": f"{index}{timings[user][index]}"}
            for user, found in totals.items()
            for index, total in enumerate(found)
        ]

    early, on_time = "EARLY", "ON_TIME"
    timings = {"a": [early, early, on_time], "b": [early, early, on_time]}
    event = panes(timings, a=[5, 13, 13], b=[2, 18, 18])
    # By the clock the first window ends at 50 s; the row at 50 s is in the second, with a multiple at 60 s.
    first = panes({"a": timings["a"], "b": [early, on_time]}, a=[5, 13, 13], b=[2, 2])
    second = panes({"b": [early, on_time]}, b=[16, 16])
    return {
        "early": event,
        "alone": event,
        "global": panes(timings, a=[5, 13], b=[2, 18]),
        "clock": first + second,
    }
