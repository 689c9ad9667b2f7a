"""Rows to declared side outputs beside the main one, from rows and timers; a branch works on one of them."""

import millstream as ms

ORDER_KEY = {"out": ["user"], "big": ["user"]}


class Sort(ms.ProcessFunction):
    def process(self, row, ctx):
        if row["amount"] < 0:
            ctx.output("bad", {"reason": f"{row['amount']} of {row['user']}"})
            return
        if row["amount"] > 100:
            ctx.output("big", row)
        ctx.event_timer(row["at"])
        yield row

    def on_timer(self, timestamp, ctx):
        ctx.output("bad", {"reason": f"timer {timestamp} of {ctx.key[0]}"})


def job():
    job = ms.Job("process-side-outputs")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at")
    outputs = {"bad": "reason string", "big": "user string, amount long, at long"}
    sorted_ = rows.key_by("user").process(Sort, schema=outputs["big"], outputs=outputs, id="sort")
    sorted_.sink("out", ms.collect("out"))
    sorted_.side_output("bad").sink("bad", ms.collect("bad"))
    sorted_.side_output("big").with_columns(amount="amount - 100").sink("big", ms.collect("big"))
    return job
