"""Rows behind the watermark are late; rows of one instant go by `order_by`."""

import millstream as ms

ORDER_KEY = {"out": ["k"]}


def pair(match):
    return {"k": match["a"][0]["k"], "first": match["a"][0]["n"], "second": match["b"][0]["n"]}


def job():
    job = ms.Job("pattern-late-rows")
    rows = job.source("in", ms.memory([]), schema="k string, n long, at long").event_time("at", max_delay="5m")
    pattern = ms.pattern.begin("a").where("n % 2 = 1").next("b").where("n = a.n + 1")
    made = (
        rows.key_by("k").pattern(pattern, order_by="n").select(pair, schema="k string, first long, second long", id="p")
    )
    made.sink("out", ms.collect("out"))
    made.late.sink("late", ms.collect("late"))
    return job
