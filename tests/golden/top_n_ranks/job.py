"""The three best rows of each key with their ranks: the last row said per key and rank counts; nulls are the smallest."""

import millstream as ms

LAST_BY = {"out": ["k", "rank_number"]}


def inputs():
    rows = [{"k": f"k{n % 3}", "price": (n * 37) % 11 if n % 7 else None, "n": n} for n in range(45)]
    return {"in": [*rows, {"k": None, "price": 5, "n": 99}]}


def best(rows, count):
    order = sorted(rows, key=lambda row: (-(-1 if row["price"] is None else row["price"]), row["n"]))
    return [row | {"rank_number": place + 1} for place, row in enumerate(order[:count])]


def expected():
    rows = inputs()["in"]
    found = [row for key in ("k0", "k1", "k2", None) for row in best([r for r in rows if r["k"] == key], 3)]
    return {"out": found, "end": found}


def job():
    job = ms.Job("top-n-ranks")
    keyed = job.source("in", ms.memory([]), schema="k string, price long, n long").key_by("k")
    keyed.top_n(3, by="price desc, n", id="best").sink("out", ms.collect("out"))
    keyed.top_n(3, by="price desc, n", emit="end", id="best-at-end").sink("end", ms.collect("end"))
    return job
