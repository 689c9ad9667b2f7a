"""What joins emit when the watermark reaches a row is in time for windows; epochs end where it reaches just that row."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

ORDERS, RATES = (999, 1_000, 3_000), (0, 1_000, 3_000)


def inputs():
    cut = dict(ADVANCE_CLOCK(0))

    def script(times):
        rows = [{"k": 1, "at": at} for at in times]
        return [*rows[:2], cut, *rows[2:], cut, cut]

    return {"orders": script(ORDERS), "rates": script(RATES)}


def expected():
    start = {0: 1, 1_000: 1, 3_000: 1}
    rows = [{"start": at, "n": n} for at, n in start.items()]
    # An order meets rates of its instant alone. The one at 999 has none, which is known at 999.
    return {"rated": rows, "rated-late": [], "paid": rows, "paid-late": []}


def job():
    job = ms.Job("windows-behind-joins")
    orders, rates = (
        job.source(name, ms.memory([]), schema="k long, at long").event_time("at").key_by("k")
        for name in ("orders", "rates")
    )
    joins = {
        "rated": orders.temporal_join(rates, prefix="r_", id="rated-rows"),
        "paid": orders.join(rates, how="left", within=("0s", "0s"), prefix="r_", id="paid-rows"),
    }
    for name, made in joins.items():
        counts = made.key_by("k").window(ms.tumbling("1s")).aggregate(n=ms.count(), id=f"{name}-counts")
        counts.select("n", start="CAST(unix_millis(window_start) AS BIGINT)").sink(name, ms.collect(name))
        counts.late.select("k", "at", id=f"{name}-late-rows").sink(f"{name}-late", ms.collect("late"))
    return job
