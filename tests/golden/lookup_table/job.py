"""Rows looked up in tables that are part of the job: two columns, several rows per key, nulls, inner and left."""

import millstream as ms

ORDER_KEY = {"inner": ["n"], "left": ["n"]}
TABLE = [
    {"code": "a", "year": 1, "name": "ant"},
    {"code": "b", "year": 1, "name": "bee"},
    {"code": "b", "year": 1, "name": "bat"},
    {"code": "c", "year": None, "name": "cat"},
]


def inputs():
    keys = [("a", 1), ("b", 1), ("c", None), ("a", 2), (None, 1)]
    return {"in": [{"n": number, "code": keys[number % 5][0], "y": keys[number % 5][1]} for number in range(15)]}


def expected():
    inner, left = [], []
    for row in inputs()["in"]:
        found = [t["name"] for t in TABLE if t["code"] == row["code"] and t["year"] == row["y"] is not None]
        inner += [{"n": row["n"], "name": name} for name in found]
        left += [{"n": row["n"], "name": name} for name in found or [None]]
    return {"inner": inner, "left": left}


def job():
    job = ms.Job("lookup-table")
    rows = job.source("in", ms.memory([]), schema="n long, code string, y long")
    for how in ("inner", "left"):
        made = rows.lookup(TABLE, on={"code": "code", "y": "year"}, how=how, prefix="t_", id=f"looked-up-{how}")
        made.select("n", "name", id=f"short-{how}").sink(how, ms.collect(how))
    return job
