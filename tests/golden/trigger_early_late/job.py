"""Early firings by count, one on time, late ones by count; with allowed lateness a late pane has all rows again."""

import datetime as dt

import millstream as ms
from millstream.testing import WATERMARK

ORDER_KEY = {"panes": ["user", "window_start"], "purged": ["user", "window_start"]}
TRIGGER = ms.trigger.event_time().early(ms.trigger.count(2)).late(ms.trigger.count(2))
PURGING = ms.trigger.event_time().early(ms.trigger.purging(ms.trigger.count(2)))


def job():
    job = ms.Job("trigger-early-late")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="1h")
    keyed = rows.key_by("user")
    for name, trigger in {"panes": TRIGGER, "purged": PURGING}.items():
        window = keyed.window(ms.tumbling("1m"), allowed_lateness="1m", trigger=trigger)
        result = window.aggregate(total=ms.sum("amount"), pane=True, id=f"{name}-w")
        result.sink(name, ms.collect(name))
        result.late.sink(f"{name}-late", ms.collect(name))
    return job


def row(user, amount, at):
    return {"user": user, "amount": amount, "at": at}


def inputs():
    return {
        "in": [
            row("a", 1, 0),
            row("a", 2, 1),
            row("b", 4, 2),
            row("a", 8, 3),
            row("a", 16, 60_000),
            WATERMARK("1m"),
            row("a", 32, 4),
            row("a", 64, 5),
            row("b", 128, 6),
            row("b", 256, 60_001),
            WATERMARK("2m"),
            row("a", 512, 7),
            row("a", 1024, 60_002),
        ]
    }


def expected():
    """The first minute of a: 1, 2, 8, then late 32, 64. Of b: 4, then late 128. The second: 16 and late 1024; 256."""
    late = [{"user": "a", "amount": 512, "at": 7}]
    first, second = (dt.datetime(1970, 1, 1, 0, minute, tzinfo=dt.UTC) for minute in (0, 1))

    def panes(found):
        return [
            {
                "user": user,
                "window_start": start,
                "window_end": start + dt.timedelta(minutes=1),
                "pane_index": index,
                "pane_timing": timing,
                "total": total,
            }
            for user, start, some in found
            for index, (timing, total) in enumerate(some)
        ]

    shown = [
        ("a", first, [("EARLY", 3), ("ON_TIME", 11), ("LATE", 107)]),
        ("b", first, [("ON_TIME", 4)]),
        ("a", second, [("ON_TIME", 16)]),
        ("b", second, [("ON_TIME", 256)]),
    ]
    purged = [
        ("a", first, [("EARLY", 3), ("ON_TIME", 8), ("LATE", 40), ("LATE", 104)]),
        ("b", first, [("ON_TIME", 4), ("LATE", 132)]),
        ("a", second, [("ON_TIME", 16), ("LATE", 1040)]),
        ("b", second, [("ON_TIME", 256)]),
    ]
    return {"panes": panes(shown), "panes-late": late, "purged": panes(purged), "purged-late": late}
