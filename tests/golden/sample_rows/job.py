"""A share of the rows of each key, spread evenly: which rows follows from their number in the key alone."""

import millstream as ms

RATE = 0.3


def inputs():
    keys = ["x", "y", None, "z", "x", "x"]
    return {"in": [{"k": keys[number % 6], "n": number} for number in range(90)]}


def expected():
    numbers, out = {}, []
    for row in inputs()["in"]:
        number = numbers[row["k"]] = numbers.get(row["k"], -1) + 1
        # Three of every ten, as even as whole rows can be: 0, 4, 7, 10, 14, 17, ...
        if (number * 3) % 10 < 3:
            out.append(row)
    return {"out": out}


def job():
    job = ms.Job("sample-rows")
    rows = job.source("in", ms.memory([]), schema="k string, n long")
    rows.key_by("k").sample(RATE, id="some").sink("out", ms.collect("out"))
    return job
