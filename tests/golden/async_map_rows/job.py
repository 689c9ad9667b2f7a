"""Coroutines over rows: in order and as answers come, tried again after failures, with dead letters and event times."""

import asyncio

import millstream as ms
from millstream.connectors.memory.spec import to_json

ORDER_KEY = {"out": ["k"]}
IGNORED = {"slow.dead": ["error", "at"]}


async def double(row):
    await asyncio.sleep(0.001 * (row["n"] % 3))
    return {"k": row["k"], "n": row["n"] * 2, "at": row["at"]}


async def picky(row):
    if row["n"] % 10 == 8:
        await asyncio.sleep(5)
    if row["n"] % 10 == 4:
        raise ValueError("four")
    return row


def inputs():
    return {"in": [{"k": f"k{n % 2}", "n": n, "at": n * 1000} for n in range(20)]}


def expected():
    rows = inputs()["in"]
    doubled = [row | {"n": row["n"] * 2} for row in rows]
    bad = [row for row in doubled if row["n"] % 10 in {4, 8}]
    counts = {}
    for row in doubled:
        if row not in bad:
            counts[row["at"] // 10_000] = counts.get(row["at"] // 10_000, 0) + 1
    records = [f'{{"k": "{row["k"]}", "n": {row["n"]}, "at": {row["at"]}}}' for row in bad]
    kept = [to_json(f'{{"row": {record}, "time": {row["at"]}}}'.encode()) for record, row in zip(records, bad)]
    letters = [{"step": "slow", "record": record, "origin": None, "raw": raw} for record, raw in zip(records, kept)]
    return {"out": doubled, "by-window": [{"n": n} for n in counts.values()], "slow.dead": letters}


def job():
    job = ms.Job("async-map-rows")
    rows = job.source("in", ms.memory([]), schema="k string, n long, at long").event_time("at")
    doubled = rows.async_map(double, schema="k string, n long, at long", concurrency=4, id="doubled")
    doubled.sink("out", ms.collect("out"))
    slow = doubled.async_map(
        picky,
        schema="k string, n long, at long",
        timeout="20ms",
        retries=1,
        backoff="1ms",
        on_error=ms.dead_letter(ms.collect("dead")),
        id="slow",
    )
    windows = slow.with_columns(all="1", id="one").key_by("all").window(ms.tumbling("10s"))
    windows.aggregate(n=ms.count(), id="windows").select("n", id="short").sink("by-window", ms.collect("windows"))
    return job
