"""Which rows a firing sees. Before a firing an evictor works on a copy; after it, what it takes out is gone."""

import millstream as ms

SINKS = ("count", "time", "delta", "function", "custom", "after", "sums", "reduced")
ORDER_KEY = {name: ["user"] for name in SINKS}


def apart(row, last):
    return abs(row["amount"] - last["amount"]) / 2


def even(rows, window):
    return [row for row in rows if row["amount"] % 2 == 0]


EVICTORS = {
    "count": ms.evictor.count(3),
    "time": ms.evictor.time("3s"),
    "delta": ms.evictor.delta("amount", 4),
    "function": ms.evictor.delta(apart, 2),
    "custom": ms.evictor.custom(even),
    "after": ms.evictor.count(1, when="after"),
}


def listed(key, window, rows):
    yield {"user": key["user"], "amounts": [row["amount"] for row in rows]}


def job():
    job = ms.Job("evictors")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="1h")
    keyed = rows.key_by("user")
    for name, evictor in EVICTORS.items():
        window = keyed.window(ms.global_window(), trigger=ms.trigger.count(2), evictor=evictor)
        window.process(listed, schema="user string, amounts array<long>", id=f"{name}-w").sink(name, ms.collect(name))
    window = keyed.window(ms.global_window(), trigger=ms.trigger.count(2), evictor=ms.evictor.count(3))
    window.aggregate(n=ms.count(), total=ms.sum("amount"), id="sums-w").sink("sums", ms.collect("s"))
    window.reduce(lambda a, b: {**b, "amount": a["amount"] + b["amount"]}, id="reduced-w").sink(
        "reduced", ms.collect("r")
    )
    return job


def inputs():
    rows = [("a", 1, 0), ("a", 9, 2000), ("b", 5, 0), ("a", 4, 1000), ("a", 6, 3000), ("b", 7, 9000), ("a", 8, 9000)]
    return {"in": [{"user": user, "amount": amount, "at": at} for user, amount, at in [*rows, ("a", 3, 8000)]]}


def expected():
    """User a has 1, 9, 4, 6, 8, 3 at 0, 2, 1, 3, 9, 8 s and fires with two, four and six of them; b has 5, 7 at 0, 9 s."""
    found = {
        "count": {"a": [[1, 9], [9, 4, 6], [6, 8, 3]], "b": [[5, 7]]},
        "time": {"a": [[1, 9], [9, 4, 6], [8, 3]], "b": [[7]]},
        "delta": {"a": [[9], [9, 4, 6], [1, 4, 6, 3]], "b": [[5, 7]]},
        "function": {"a": [[9], [9, 4, 6], [1, 4, 6, 3]], "b": [[5, 7]]},
        # Without a row left nothing is fired.
        "custom": {"a": [[4, 6], [4, 6, 8]]},
        "after": {"a": [[1, 9], [9, 4, 6], [6, 8, 3]], "b": [[5, 7]]},
    }
    made = {
        name: [{"user": user, "amounts": amounts} for user, some in users.items() for amounts in some]
        for name, users in found.items()
    }
    lasts = {("a", 2000): [1, 9], ("a", 3000): [9, 4, 6], ("a", 8000): [6, 8, 3], ("b", 9000): [5, 7]}
    made["sums"] = [{"user": user, "n": len(some), "total": sum(some)} for (user, _), some in lasts.items()]
    made["reduced"] = [{"user": user, "amount": sum(some), "at": at} for (user, at), some in lasts.items()]
    return made
