"""Dead letters are a stream like any other: they can be mapped, united and counted."""

import millstream as ms


def parse(row):
    return {"n": int(row["text"])}


def job():
    job = ms.Job("dead-letters-processed")
    dead = ms.dead_letter(ms.collect("dead"))
    parsed = job.source("in", ms.memory([]), schema="text string").map(
        parse, schema="n long", on_error=dead, id="parse"
    )
    parsed.sink("out", ms.collect("out"))
    reasons = parsed.dead.map(lambda row: {"reason": row["error"].split(":")[0]}, schema="reason string")
    reasons.key_by("reason").aggregate(n=ms.count(), emit="end", id="reasons").sink("reason", ms.collect("reason"))
    return job
