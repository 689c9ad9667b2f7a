"""Streams joined by keys of different types, which meet in the wider one, as in Spark."""

import datetime as dt
import decimal

import millstream as ms

LEFT = "i int, l long, d decimal(10,2), f float, x double, day date, n long"
RIGHT = "i int, l long, d decimal(20,4), f float, x double, ts timestamp, m long"
PAIRS = (
    ("i", "l"), ("l", "i"), ("i", "d"), ("l", "d"), ("d", "d"), ("i", "x"), ("l", "x"), ("d", "x"), ("f", "x"),
    ("x", "f"), ("l", "f"), ("day", "ts"),
)  # fmt: skip


def inputs():
    return {"left": [left(n) for n in range(24)], "right": [right(n) for n in range(24)]}


def left(n):
    value = None if n % 9 == 4 else n % 5 - 2
    half = None if value is None else value + (n % 3) * 0.5
    fifth = None if half is None else f"{half:.2f}"
    day = f"1970-01-{1 + n % 4:02}"
    zero = -0.0 if half == 0 and n % 2 else half
    return {"i": value, "l": value, "d": fifth, "f": half, "x": zero, "day": day, "n": n}


def right(n):
    value = None if n % 7 == 3 else n % 6 - 3
    half = None if value is None else value + (n % 2) * 0.5
    fifth = None if half is None else f"{half:.4f}"
    zero = -0.0 if half == 0 and n % 4 else half
    ts = f"1970-01-{1 + n % 5:02}T{0 if n % 3 else 12:02}:00:00+00:00"
    return {"i": value, "l": value, "d": fifth, "f": half, "x": zero, "ts": ts, "m": n}


def number(row, name):
    """What a value is compared by: numbers by value, days and instants as instants."""
    value = row[name]
    if value is None or name in {"i", "l", "f", "x"}:
        return value
    return decimal.Decimal(value) if name == "d" else dt.datetime.fromisoformat(value).replace(tzinfo=None)


def expected():
    given = inputs()
    return {
        f"{one}-{other}": [
            {"n": a["n"], "m": b["m"]}
            for a in given["left"]
            for b in given["right"]
            if None not in (a[one], b[other]) and number(a, one) == number(b, other)
        ]
        for one, other in PAIRS
    }


def job():
    job = ms.Job("sql-join-widened")
    streams = {
        name: job.source(name, ms.memory([]), schema=schema) for name, schema in (("left", LEFT), ("right", RIGHT))
    }
    for one, other in PAIRS:
        text = f"SELECT n, m FROM one a JOIN other b ON a.{one} = b.{other}"
        made = job.sql(text, id=f"{one}-{other}-of", one=streams["left"], other=streams["right"])
        made.sink(f"{one}-{other}", ms.collect("out"))
    return job
