"""The last row of each key: to come, or in an order; said again whenever it is another one, or once at the end."""

import millstream as ms

LAST_BY = {"came-out": ["k"], "ordered-out": ["k"], "smallest-out": ["k"]}


def inputs():
    return {"in": [{"k": f"k{n % 4}", "at": (n * 7) % 10, "n": n} for n in range(40)]}


def expected():
    rows, best = inputs()["in"], {}
    for name, rule in (
        ("came", lambda row: row["n"]),
        ("ordered", lambda row: (row["at"], row["n"])),
        ("smallest", lambda row: (-row["at"], -row["n"])),
    ):
        keys = {row["k"] for row in rows}
        best[f"{name}-out"] = [max((row for row in rows if row["k"] == key), key=rule) for key in keys]
    return best | {"end-out": best["ordered-out"]}


def job():
    job = ms.Job("dedupe-last")
    keyed = job.source("in", ms.memory([]), schema="k string, at long, n long").key_by("k")
    keyed.deduplicate(keep="last", id="came").sink("came-out", ms.collect("came"))
    keyed.deduplicate(keep="last", by="at", id="ordered").sink("ordered-out", ms.collect("ordered"))
    keyed.deduplicate(keep="first", by="at", id="smallest").sink("smallest-out", ms.collect("smallest"))
    keyed.deduplicate(keep="last", by="at", emit="end", id="end").sink("end-out", ms.collect("end"))
    return job
