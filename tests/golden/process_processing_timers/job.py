"""Processing-time timers fire when the clock reaches them; those never reached do not fire."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Remind(ms.ProcessFunction):
    def process(self, row, ctx):
        ctx.processing_timer(ctx.now + row["wait"])
        yield {"user": row["user"], "event": "row", "at": ctx.now}

    def on_timer(self, timestamp, ctx):
        yield {"user": ctx.key[0], "event": f"timer {timestamp}", "at": ctx.now}


def job():
    job = ms.Job("process-processing-timers")
    rows = job.source("in", ms.memory([]), schema="user string, wait long")
    rows.key_by("user").process(Remind, schema="user string, event string, at long", id="r").sink(
        "out", ms.collect("out")
    )
    return job
