"""One row out for each row in; the schema comes from the annotation."""

import dataclasses

import millstream as ms

ORDER_KEY = {"out": ["user"]}


@dataclasses.dataclass
class Doubled:
    user: str
    twice: int


def double(row) -> Doubled:
    return Doubled(row["user"].upper(), row["amount"] * 2)


def job():
    job = ms.Job("map-rows")
    job.source("in", ms.memory([]), schema="user string, amount long").map(double).sink("out", ms.collect("out"))
    return job
