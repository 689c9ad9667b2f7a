"""Falling prices and a rise, per auction: greedy stages, measures, and the next search at the row of the rise."""

import millstream as ms

ORDER_KEY = {"out": ["auction"]}


def job():
    job = ms.Job("pattern-measures")
    rows = job.source("in", ms.memory([]), schema="auction string, price long, at long").event_time(
        "at", max_delay="5m"
    )
    pattern = (
        ms.pattern.begin("start")
        .next("down")
        .where("price < coalesce(last(down.price, 1), start.price)")
        .one_or_more()
        .greedy()
        .consecutive()
        .next("up")
        .where("price > last(down.price, 1)")
        .skip_to_last("up")
    )
    found = rows.key_by("auction").pattern(pattern)
    found.measures(
        began="start.at",
        bottom="min(down.price)",
        rows="count(down)",
        mean="avg(down.price)",
        rise="up.price - last(down.price)",
        id="falls",
    ).sink("out", ms.collect("out"))
    return job
