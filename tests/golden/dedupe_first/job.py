"""The first row of each key to come, null being a key too; everything else is dropped."""

import millstream as ms


def inputs():
    keys = ["x", "y", None, "z", "x"]
    return {"in": [{"k": keys[number % 5], "j": number % 2, "n": number} for number in range(40)]}


def expected():
    seen, out = set(), []
    for row in inputs()["in"]:
        if (row["k"], row["j"]) not in seen:
            seen.add((row["k"], row["j"]))
            out.append(row)
    return {"out": out}


def job():
    job = ms.Job("dedupe-first")
    rows = job.source("in", ms.memory([]), schema="k string, j long, n long")
    rows.key_by("k", "j").deduplicate(id="once").sink("out", ms.collect("out"))
    return job
