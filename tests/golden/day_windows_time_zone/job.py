"""Days and weeks of a time zone: 23 and 25 hours long where clocks are changed, with results, late rows and rows kept."""

import datetime as dt

import millstream as ms
from millstream.testing import WATERMARK

BERLIN = "Europe/Berlin"


def listed(key, window, rows):
    hours = (window.end - window.start) // 3_600_000
    yield {"k": key["k"], "start": window.start_time, "hours": hours, "values": sorted(row["v"] for row in rows)}


def job():
    job = ms.Job("day-windows-time-zone")
    rows = job.source("in", ms.memory([]), schema="k string, v long, at timestamp").event_time("at", max_delay="900d")
    keyed = rows.key_by("k")
    days = keyed.window(ms.tumbling("1d", time_zone=BERLIN), allowed_lateness="1h")
    result = days.aggregate(total=ms.sum("v"), id="days")
    result.sink("days-out", ms.collect("d"))
    result.late.sink("late", ms.collect("l"))
    schema = "k string, start timestamp, hours long, values array<long>"
    # 1970-01-01 was a Thursday: weeks from Monday on.
    weeks = keyed.window(ms.tumbling("7d", time_zone=BERLIN, offset="4d"))
    weeks.process(listed, schema=schema, id="weeks").sink("weeks-out", ms.collect("w"))
    pairs = keyed.window(ms.sliding("2d", "1d", time_zone=BERLIN, offset="6h"))
    pairs.aggregate(total=ms.sum("v"), id="pairs").sink("pairs-out", ms.collect("p"))
    return job


def utc(text):
    return dt.datetime.fromisoformat(f"{text}+00:00")


ROWS = [
    ("2024-03-30T22:59:59", 1),
    ("2024-03-30T23:00:00", 2),
    ("2024-03-31T21:59:59", 4),
    ("2024-03-31T22:00:00", 8),
    ("2024-10-26T22:00:00", 16),
    ("2024-10-27T22:59:59", 32),
    ("2024-10-27T23:00:00", 64),
]


def inputs():
    rows = [{"k": "x", "v": v, "at": utc(text)} for text, v in ROWS]
    script = [rows[1], rows[0], *rows[2:], WATERMARK(utc("2024-10-27T23:59:59")), {**rows[5], "v": 128}]
    # The day of 25 hours ended at 23:00 UTC: an hour later it takes no rows any more.
    return {"in": [*script, WATERMARK(utc("2024-10-28T00:00:00")), {**rows[5], "v": 256}]}


def expected():
    """Clocks in Berlin were put forward on 31 March 2024 and back on 27 October 2024, each at 01:00 UTC."""
    days = [
        ("2024-03-29T23:00:00", "2024-03-30T23:00:00", 1),
        ("2024-03-30T23:00:00", "2024-03-31T22:00:00", 6),
        ("2024-03-31T22:00:00", "2024-04-01T22:00:00", 8),
        ("2024-10-26T22:00:00", "2024-10-27T23:00:00", 48),
        ("2024-10-26T22:00:00", "2024-10-27T23:00:00", 176),
        ("2024-10-27T23:00:00", "2024-10-28T23:00:00", 64),
    ]
    pairs = [
        ("2024-03-29T05:00:00", "2024-03-31T04:00:00", 3),
        ("2024-03-30T05:00:00", "2024-04-01T04:00:00", 15),
        ("2024-03-31T04:00:00", "2024-04-02T04:00:00", 12),
        ("2024-10-25T04:00:00", "2024-10-27T05:00:00", 16),
        ("2024-10-26T04:00:00", "2024-10-28T05:00:00", 496),
        ("2024-10-27T05:00:00", "2024-10-29T05:00:00", 480),
    ]

    def windows(found):
        return [
            {"k": "x", "window_start": utc(start), "window_end": utc(end), "total": total}
            for start, end, total in found
        ]

    weeks = [
        ("2024-03-24T23:00:00", 167, [1, 2, 4]),
        ("2024-03-31T22:00:00", 168, [8]),
        ("2024-10-20T22:00:00", 169, [16, 32]),
        ("2024-10-27T23:00:00", 168, [64]),
    ]
    return {
        "days-out": windows(days),
        "late": [{"k": "x", "v": 256, "at": utc("2024-10-27T22:59:59")}],
        "weeks-out": [{"k": "x", "start": utc(at), "hours": hours, "values": values} for at, hours, values in weeks],
        "pairs-out": windows(pairs),
    }
