"""Every plain type through a Python step, an exchange and the state of a reduction."""

import millstream as ms

ORDER_KEY = {"out": ["k"]}
SCHEMA = (
    "k byte, s short, i int, l long, f float, d double, b boolean, t string, x binary, day date, at timestamp, "
    "local timestamp_ntz, n decimal(5,1)"
)


def job():
    job = ms.Job("plain-types")
    rows = job.source("in", ms.memory([]), schema=SCHEMA).map(dict, schema=SCHEMA)
    rows.key_by("k").reduce(lambda held, row: held, id="first").sink("out", ms.collect("out"))
    for key in ("f", "b", "x", "local", "n"):
        rows.key_by(key).aggregate(count=ms.count(), emit="end", id=f"by-{key}").sink(key, ms.collect(key))
    return job
