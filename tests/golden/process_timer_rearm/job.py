"""A timer may set the next one; what is due by the same watermark fires too, for many keys at the same instants."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Tick(ms.ProcessFunction):
    left = ms.ValueState(int)

    def process(self, row, ctx):
        self.left.update(row["ticks"])
        ctx.event_timer(row["at"] + 1000)

    def on_timer(self, timestamp, ctx):
        yield {"user": ctx.key[0], "at": timestamp}
        left = self.left.value() - 1
        self.left.update(left)
        if left:
            ctx.event_timer(timestamp + 1000)


def job():
    job = ms.Job("process-timer-rearm")
    rows = job.source("in", ms.memory([]), schema="user string, ticks int, at long").event_time("at")
    rows.key_by("user").process(Tick, schema="user string, at long", id="tick").sink("out", ms.collect("out"))
    return job
