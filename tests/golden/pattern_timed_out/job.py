"""Orders that are paid in time, and orders that time ran out for; the pattern is followed by another keyed step."""

import millstream as ms

ORDER_KEY = {"out": ["order"], "late": ["order"]}


def job():
    job = ms.Job("pattern-timed-out")
    rows = job.source("in", ms.memory([]), schema="order string, what string, at long").event_time("at", max_delay="5m")
    pattern = (
        ms.pattern.begin("ordered").where("what = 'order'").followed_by("paid").where("what = 'pay'").within("10s")
    )
    found = rows.key_by("order").pattern(pattern)
    made = found.measures(
        took="paid.at - ordered.at",
        timed_out={"since": "ordered.at", "paid": "paid.at", "n": "count(ordered)"},
        id="paid",
    )
    made.sink("out", ms.collect("out"))
    made.side_output("timed_out").sink("late", ms.collect("late"))
    made.key_by("order").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="per_minute").sink("n", ms.collect("n"))
    return job
