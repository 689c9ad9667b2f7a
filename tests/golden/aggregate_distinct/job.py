"""Exact counts of different values, with and without a condition, in every form of aggregate."""

import math
import random

import millstream as ms

LAST_BY = {"epoch": ["user"], "row": ["user"]}
AGGREGATES = {
    "items": ms.count_distinct("item"),
    "cheap": ms.count_distinct("item", where="price < 10"),
    "prices": ms.count_distinct("price"),
    "scores": ms.count_distinct("score"),
    "parts": ms.count_distinct("substring(item, 1, 1)", where="price >= 10"),
    "n": ms.count(),
}


def job():
    job = ms.Job("aggregate-distinct")
    schema = "user string, item string, price decimal(6,2), score double, at long"
    rows = job.source("in", ms.memory([]), schema=schema)
    users = rows.event_time("at", max_delay="1m").key_by("user")
    users.aggregate(**AGGREGATES, emit="epoch", id="by-epoch").sink("epoch", ms.collect("epoch"))
    users.aggregate(**AGGREGATES, emit="row", id="by-row").sink("row", ms.collect("row"))
    users.aggregate(**AGGREGATES, emit="end", id="by-end").sink("end", ms.collect("end"))
    users.window(ms.tumbling("20s")).aggregate(**AGGREGATES, id="by-tumbling").sink("tumbling", ms.collect("tumbling"))
    users.window(ms.sliding("20s", "5s")).aggregate(**AGGREGATES, id="by-sliding").sink(
        "sliding", ms.collect("sliding")
    )
    users.window(ms.session("3s")).aggregate(**AGGREGATES, id="by-session").sink("session", ms.collect("session"))
    return job


def inputs():
    chance = random.Random(11)
    items = [None, *(f"{letter}{number}" for letter in "xyz" for number in range(6))]
    scores = [None, 0.0, -0.0, math.nan, 1.5, 2.5]
    rows = []
    for number in range(90):
        user = chance.choice(["ann", "bob", None]) if number % 30 else "zoe"
        price = None if number % 17 == 0 else f"{chance.randrange(40) / 2:.2f}"
        at = number * 700 + chance.randrange(3_000)
        row = {"user": user, "item": chance.choice(items), "price": price, "score": chance.choice(scores), "at": at}
        rows.append(row)
    return {"in": rows}


def expected():
    users = {}
    for row in inputs()["in"]:
        users.setdefault(row["user"], []).append(row)
    whole = [{"user": user, **results(rows)} for user, rows in users.items()]
    windows = {"tumbling": aligned(users, 20_000), "sliding": aligned(users, 5_000), "session": sessions(users)}
    closed = {name: [windowed(*window) for window in found] for name, found in windows.items()}
    return {"epoch": whole, "row": whole, "end": whole, **closed}


def results(rows):
    priced = [(row["item"], row["price"] and float(row["price"])) for row in rows]
    return {
        "items": different(row["item"] for row in rows),
        "cheap": different(item for item, price in priced if price is not None and price < 10),
        "prices": different(price for _, price in priced),
        # Minus zero is zero, and one NaN is as good as another.
        "scores": different("nan" if row["score"] != row["score"] else row["score"] for row in rows),
        "parts": different(item[:1] for item, price in priced if item and price is not None and price >= 10),
        "n": len(rows),
    }


def different(values):
    return len({value for value in values if value is not None})


def aligned(users, slide):
    for user, rows in users.items():
        for start in range(-20_000, 80_000, slide):
            inside = [row for row in rows if start <= row["at"] < start + 20_000]
            if inside:
                yield user, start, start + 20_000, inside


def sessions(users):
    for user, rows in users.items():
        held = []
        for row in sorted(rows, key=lambda row: row["at"]):
            if held and row["at"] > held[-1]["at"] + 3_000:
                yield user, held[0]["at"], held[-1]["at"] + 3_000, held
                held = []
            held.append(row)
        yield user, held[0]["at"], held[-1]["at"] + 3_000, held


def windowed(user, start, end, rows):
    bounds = ms.TimeWindow(start, end)
    return {"user": user, "window_start": bounds.start_time, "window_end": bounds.end_time, **results(rows)}
