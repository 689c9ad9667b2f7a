"""A timer that is deleted does not fire; each row moves its key's timer ahead."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Quiet(ms.ProcessFunction):
    due = ms.ValueState(int)

    def process(self, row, ctx):
        if self.due.value() is not None:
            ctx.delete_event_timer(self.due.value())
        self.due.update(ctx.timestamp + 1000)
        ctx.event_timer(ctx.timestamp + 1000)
        ctx.delete_event_timer(77)

    def on_timer(self, timestamp, ctx):
        self.due.clear()
        yield {"user": ctx.key[0], "quiet_at": timestamp}


def job():
    job = ms.Job("process-timer-deletion")
    rows = job.source("in", ms.memory([]), schema="user string, at long").event_time("at")
    rows.key_by("user").process(Quiet, schema="user string, quiet_at long", id="quiet").sink("out", ms.collect("out"))
    return job
