"""A pattern over a whole stream: one subtask takes all rows, those of one instant from the largest down."""

import millstream as ms

NUMBERS = [(place * 7919 + 13) % 97 for place in range(60)]


def job():
    job = ms.Job("pattern-unkeyed")
    rows = job.source("in", ms.memory([]), schema="n long, at long").event_time("at", max_delay="5m")
    falls = ms.pattern.begin("high").where("n > 60").followed_by("low").where("n < high.n - 50").within("6s")
    found = rows.pattern(falls, order_by="n desc")
    made = found.measures(high="high.n", low="low.n", timed_out={"high": "high.n"}, id="falls")
    made.sink("out", ms.collect("out"))
    made.side_output("timed_out").sink("gone", ms.collect("gone"))
    named = found.process(lambda match, info: {"n": len(match["low"]) + len(info.key)}, schema="n long", id="per_match")
    named.sink("counted", ms.collect("counted"))
    return job


def inputs():
    return {"in": [{"n": n, "at": place // 2 * 1000} for place, n in enumerate(NUMBERS)]}


def expected():
    rows = sorted(((place // 2 * 1000, n) for place, n in enumerate(NUMBERS)), key=lambda row: (row[0], -row[1]))
    found, gone = [], []
    for place, (at, high) in enumerate(rows):
        if high > 60:
            lows = [n for time, n in rows[place + 1 :] if time < at + 6000 and n < high - 50]
            found += [{"high": high, "low": low} for low in lows[:1]]
            gone += [] if lows else [{"high": high}]
    return {"out": found, "gone": gone, "counted": [{"n": 1} for _ in found]}
