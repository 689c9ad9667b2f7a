"""Times at which nothing can have happened are bad records: nanoseconds, microseconds, null, beyond the last year."""

import millstream as ms
from millstream.connectors.memory.spec import to_json

IGNORED = {"time.dead": ["at"], "stamp.dead": ["at"]}
NOW = 1_700_000_000_000
EXPECTED = "expected milliseconds since 1970, within the years 2 to 9998"
BAD = {
    NOW * 1_000: f"{NOW * 1_000} is no event time: {EXPECTED}; it looks like microseconds: divide by 1000",
    NOW * 1_000_000: f"{NOW * 1_000_000} is no event time: {EXPECTED}; it looks like nanoseconds: divide by 1000000",
    2**63 - 1: f"{2**63 - 1} is no event time: {EXPECTED}; it looks like nanoseconds: divide by 1000000",
    None: "null is no event time",
}


def inputs():
    times = [NOW, NOW + 1, *BAD, NOW + 60_000, -1, 0]
    stamps = ["2023-11-14T22:13:20+00:00", "9999-12-31T23:59:59.999999+00:00", NOW * 1_000, "2023-11-14T22:14:59+00:00"]
    return {
        "numbers": [{"k": number, "at": at} for number, at in enumerate(times)],
        "stamps": [{"k": number, "at": at} for number, at in enumerate(stamps)],
    }


def expected():
    letters = [
        letter("time", text, f'{{"k": {number}, "at": {"null" if at is None else at}}}')
        for number, (at, text) in enumerate(BAD.items(), 2)
    ]
    late = f"253402300799999 is no event time: {EXPECTED}"
    many = f"{NOW * 1_000} is no event time: {EXPECTED}; it looks like microseconds: divide by 1000"
    stamped = [(1, '"9999-12-31 23:59:59.999999+00:00"', late), (2, str(NOW * 1_000_000), many)]
    return {
        "out": [{"minute": NOW // 60_000, "n": 2}, {"minute": NOW // 60_000 + 1, "n": 1}, *BEFORE],
        "time.dead": letters,
        "stamps.out": [{"minute": NOW // 60_000, "n": 1}, {"minute": NOW // 60_000 + 1, "n": 1}],
        "stamp.dead": [letter("stamp", text, f'{{"k": {number}, "at": {at}}}') for number, at, text in stamped],
        "skipped": [{"n": 5}],
    }


def letter(step, text, record):
    kept = to_json(f'{{"row": {record}}}'.encode())
    return {"step": step, "error": f"column 'at': {text}", "record": record, "origin": None, "raw": kept}


BEFORE = [{"minute": -1, "n": 1}, {"minute": 0, "n": 1}]


def counted(timed, step):
    made = timed.with_columns(one="1", id=f"{step}-one").key_by("one")
    windows = made.window(ms.tumbling("1m")).aggregate(n=ms.count(), id=step)
    return windows.select("n", minute="CAST(unix_millis(window_start) / 60000 AS BIGINT)", id=f"{step}-minutes")


def job():
    job = ms.Job("bad-times")
    numbers = job.source("numbers", ms.memory([]), schema="k long, at long")
    # Rows from 1970 stand behind others here; nothing is late before the end.
    options = {"watermark": ms.watermark.none()}
    timed = numbers.event_time("at", on_error=ms.dead_letter(ms.collect("dead")), id="time", **options)
    counted(timed, "minutes").sink("out", ms.collect("out"))
    skipping = numbers.event_time("at", on_error="skip", id="skipping", **options)
    skipping.with_columns(one="1", id="one").key_by("one").aggregate(n=ms.count(), emit="end", id="n").select("n").sink(
        "skipped", ms.collect("skipped")
    )
    stamps = job.source("stamps", ms.memory([]), schema="k long, at timestamp")
    stamped = stamps.event_time("at", on_error=ms.dead_letter(ms.collect("dead")), id="stamp", **options)
    counted(stamped, "stamp-minutes").sink("stamps.out", ms.collect("out"))
    return job
