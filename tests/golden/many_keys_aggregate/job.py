"""So many keys that every key group is divided into pages several times while they arrive."""

import millstream as ms
from millstream.plan.deployment import MemoryBudget

MEMORY = MemoryBudget(page_bytes=256)
KEYS, ROUNDS = 3000, 2


def inputs():
    numbers = [number * 7 % KEYS for number in range(KEYS * ROUNDS)]
    return {"in": [{"key": f"key-{number}", "x": number % 11} for number in numbers]}


def expected():
    return {"out": [{"key": f"key-{number}", "n": ROUNDS, "total": ROUNDS * (number % 11)} for number in range(KEYS)]}


def job():
    job = ms.Job("many-keys-aggregate", max_parallelism=128)
    rows = job.source("in", ms.memory([]), schema="key string, x long")
    rows.key_by("key").aggregate(n=ms.count(), total=ms.sum("x"), emit="end", id="sum").sink("out", ms.collect("out"))
    return job
