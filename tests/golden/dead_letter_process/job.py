"""A row that fails in a process function is a dead letter; the key's other rows are not touched by it."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Divide(ms.ProcessFunction):
    total = ms.ValueState(int)

    def process(self, row, ctx):
        self.total.update((self.total.value() or 0) + 12 // row["amount"])
        yield {"user": row["user"], "total": self.total.value()}


def job():
    job = ms.Job("dead-letter-process")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    dead = ms.dead_letter(ms.collect("dead"))
    divided = rows.key_by("user").process(Divide, schema="user string, total long", on_error=dead, id="divide")
    divided.sink("out", ms.collect("out"))
    return job
