"""With ties, equal rows share a rank, and all rows with a rank up to two stay."""

import millstream as ms


def inputs():
    return {"in": [{"k": f"k{n % 2}", "price": (n * 5) % 4, "n": n} for n in range(24)]}


def expected():
    rows, out = inputs()["in"], []
    for row in rows:
        better = sum(other["k"] == row["k"] and other["price"] > row["price"] for other in rows)
        out += [row | {"place": better + 1}] if better < 7 else []
    return {"out": out}


def job():
    job = ms.Job("top-n-ties")
    keyed = job.source("in", ms.memory([]), schema="k string, price long, n long").key_by("k")
    keyed.top_n(7, by="price desc", rank="place", ties=True, emit="end", id="best").sink("out", ms.collect("out"))
    return job
