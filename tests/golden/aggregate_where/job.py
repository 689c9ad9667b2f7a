"""Aggregates of the rows for which a condition is true: null is not true, and what does not count is not evaluated."""

import millstream as ms

LAST_BY = {"epoch": ["user"], "row": ["user"]}
AGGREGATES = {
    "n": ms.count(where="x > 0"),
    "known": ms.count("x", where="flag"),
    "total": ms.sum("x", where="flag AND x > 1"),
    "mean": ms.avg("x", where="NOT flag"),
    "least": ms.min("x", where="x > 1"),
    "most": ms.max("name", where="x < 3"),
    "first": ms.first("name", where="x > 1"),
    "last": ms.last("name", where="flag"),
    "shares": ms.sum("12 / x", where="x <> 0"),
}


def job():
    job = ms.Job("aggregate-where")
    rows = job.source("in", ms.memory([]), schema="user string, x long, flag boolean, name string, at long")
    users = rows.event_time("at", max_delay="1m").key_by("user")
    users.aggregate(**AGGREGATES, emit="epoch", id="by-epoch").sink("epoch", ms.collect("epoch"))
    users.aggregate(**AGGREGATES, emit="row", id="by-row").sink("row", ms.collect("row"))
    users.aggregate(**AGGREGATES, emit="end", id="by-end").sink("end", ms.collect("end"))
    for name, window in (("tumbling", ms.tumbling("10s")), ("sliding", ms.sliding("10s", "5s"))):
        users.window(window).aggregate(**AGGREGATES, id=f"by-{name}").sink(name, ms.collect(name))
    users.window(ms.session("5s")).aggregate(**AGGREGATES, id="by-session").sink("session", ms.collect("session"))
    return job


ROWS = [
    ("a", 1, True, "p", 0),
    ("b", 0, True, "q", 1_000),
    ("a", 2, None, "r", 2_000),
    ("a", 4, True, "s", 3_000),
    ("b", None, False, "t", 4_000),
    ("a", 2, False, None, 9_000),
    ("c", -3, None, "u", 12_000),
    ("a", 6, True, "v", 11_000),
    ("b", 2, False, "w", 21_000),
    ("a", 3, False, "x", 23_000),
    ("c", 0, True, None, 26_000),
]
COLUMNS = ("user", "x", "flag", "name", "at")


def inputs():
    return {"in": [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]}


def expected():
    users = {}
    for row in inputs()["in"]:
        users.setdefault(row["user"], []).append(row)
    whole = [{"user": user, **results(rows)} for user, rows in users.items()]
    windows = {"tumbling": aligned(users, 10_000), "sliding": aligned(users, 5_000), "session": sessions(users)}
    closed = {name: [windowed(*window) for window in found] for name, found in windows.items()}
    return {"epoch": whole, "row": whole, "end": whole, **closed}


def results(rows):
    def picked(column, where):
        return [row[column] for row in rows if where(row["x"], row["flag"]) is True and row[column] is not None]

    counted = [row for row in rows if row["x"] is not None and row["x"] > 0]
    total = picked("x", lambda x, flag: flag and x is not None and x > 1)
    mean = picked("x", lambda _, flag: flag is False)
    least = picked("x", lambda x, _: x is not None and x > 1)
    most = picked("name", lambda x, _: x is not None and x < 3)
    first = picked("name", lambda x, _: x is not None and x > 1)
    last = picked("name", lambda _, flag: flag)
    shares = picked("x", lambda x, _: x is not None and x != 0)
    return {
        "n": len(counted),
        "known": len(picked("x", lambda _, flag: flag)),
        "total": sum(total) if total else None,
        "mean": sum(mean) / len(mean) if mean else None,
        "least": min(least, default=None),
        "most": max(most, default=None),
        "first": next(iter(first), None),
        "last": next(reversed(last), None),
        "shares": sum(12 / x for x in shares) if shares else None,
    }


def aligned(users, slide):
    for user, rows in users.items():
        for start in range(-10_000, 30_000, slide):
            inside = [row for row in rows if start <= row["at"] < start + 10_000]
            if inside:
                # A sliding window takes its bins in the order of time.
                yield user, start, start + 10_000, sorted(inside, key=lambda row: row["at"] // slide)


def sessions(users):
    for user, rows in users.items():
        held = []
        for row in sorted(rows, key=lambda row: row["at"]):
            if held and row["at"] <= held[-1]["at"] + 5_000:
                held.append(row)
                continue
            if held:
                yield user, held[0]["at"], held[-1]["at"] + 5_000, held
            held = [row]
        yield user, held[0]["at"], held[-1]["at"] + 5_000, held


def windowed(user, start, end, rows):
    times = {"window_start": instant(start), "window_end": instant(end)}
    return {"user": user, **times, **results(rows)}


def instant(at):
    return ms.TimeWindow(at, at + 1).start_time
