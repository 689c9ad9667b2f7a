"""Event-time timers fire in order of time when the watermark reaches them, before later rows; one set twice fires once."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Expire(ms.ProcessFunction):
    open = ms.ListState(int)

    def process(self, row, ctx):
        self.open.add(row["at"])
        ctx.event_timer(row["at"] + 1000)
        ctx.event_timer(row["at"] + 1000)
        yield {"user": row["user"], "event": "row", "at": ctx.timestamp, "open": self.open.get()}

    def on_timer(self, timestamp, ctx):
        self.open.update([at for at in self.open if at + 1000 > timestamp])
        yield {"user": ctx.key[0], "event": "timer", "at": timestamp, "open": self.open.get()}


def job():
    job = ms.Job("process-event-timers")
    rows = job.source("in", ms.memory([]), schema="user string, at long").event_time("at")
    schema = "user string, event string, at long, open array<long>"
    rows.key_by("user").process(Expire, schema=schema, id="expire").sink("out", ms.collect("out"))
    return job
