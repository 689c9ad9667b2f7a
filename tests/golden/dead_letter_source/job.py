"""Records the source cannot decode go to its dead letters with what they were; the rest passes."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}
IGNORED = {"in.dead": ["error"]}


def job():
    job = ms.Job("dead-letter-source")
    dead = ms.dead_letter(ms.collect("dead"))
    job.source("in", ms.memory([]), schema="user string, amount long", on_error=dead).sink("out", ms.collect("out"))
    return job
