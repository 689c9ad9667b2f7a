"""Rows belong to the window of their epoch's clock, which fires once the clock has passed it, or when the input ends."""

import datetime as dt

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

ORDER_KEY = {"out": ["user"], "listed": ["user"], "plain": ["user"]}


def listed(key, window, rows):
    yield {"user": key["user"], "start": window.start, "amounts": [row["amount"] for row in rows]}


def job():
    job = ms.Job("processing-time-tumbling")
    keyed = job.source("in", ms.memory([]), schema="user string, amount long").key_by("user")
    window = keyed.window(ms.tumbling("20s", time="processing", offset="10s"))
    window.aggregate(n=ms.count(), total=ms.sum("amount"), pane=True, id="w").sink("out", ms.collect("out"))
    window.aggregate(n=ms.count(), total=ms.sum("amount"), id="v").sink("plain", ms.collect("plain"))
    window.process(listed, schema="user string, start long, amounts array<long>", id="p").sink(
        "listed", ms.collect("listed")
    )
    return job


def inputs():
    tick = dict(ADVANCE_CLOCK("10s"))
    rows = [{"user": user, "amount": 2**i} for i, user in enumerate("aabaab")]
    return {"in": [rows[0], rows[1], rows[2], tick, rows[3], tick, rows[4], tick, rows[5], tick]}


def expected():
    """Windows begin at -10 s, 10 s and 30 s; the clock stands at 0, 10, 20, 30 and 40 s."""
    found = {("a", -10): [1, 2], ("b", -10): [4], ("a", 10): [8, 16], ("b", 30): [32]}
    zero = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    out, lists = [], []
    for (user, start), amounts in found.items():
        bounds = [zero + dt.timedelta(seconds=second) for second in (start, start + 20)]
        pane = {"pane_index": 0, "pane_timing": "ON_TIME"}
        out.append(
            {"user": user, "window_start": bounds[0], "window_end": bounds[1], **pane}
            | {"n": len(amounts), "total": sum(amounts)}
        )
        lists.append({"user": user, "start": start * 1000, "amounts": amounts})
    plain = [{name: value for name, value in row.items() if "pane" not in name} for row in out]
    return {"out": out, "listed": lists, "plain": plain}
