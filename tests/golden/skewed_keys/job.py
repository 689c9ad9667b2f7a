"""Nearly all rows have one key, the others one row each."""

import millstream as ms

LAST_BY = {"last": ["user"]}


def inputs():
    return {"in": [{"user": "hot" if number % 20 else f"cold{number}", "x": number} for number in range(400)]}


def expected():
    hot = [number for number in range(400) if number % 20]
    rows = [{"user": f"cold{number}", "n": 1, "total": number} for number in range(0, 400, 20)]
    return {"out": [*rows, {"user": "hot", "n": len(hot), "total": sum(hot)}], "last": [{"user": "hot", "x": sum(hot)}]}


def job():
    job = ms.Job("skewed-keys")
    rows = job.source("in", ms.memory([]), schema="user string, x long")
    rows.key_by("user").aggregate(n=ms.count(), total=ms.sum("x"), emit="end", id="sum").sink("out", ms.collect("out"))
    reduced = (
        rows.filter("user = 'hot'").key_by("user").reduce(lambda held, row: {**row, "x": held["x"] + row["x"]}, id="r")
    )
    reduced.sink("last", ms.collect("last"))
    return job
