"""A list per key: every second row gives what was held, in order."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Pairs(ms.ProcessFunction):
    held = ms.ListState(int)

    def process(self, row, ctx):
        self.held.add(row["amount"])
        if len(self.held.get()) == 2:
            yield {"user": row["user"], "pair": self.held.get()}
            self.held.update([])


def job():
    job = ms.Job("process-list-state")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    rows.key_by("user").process(Pairs, schema="user string, pair array<long>", id="pairs").sink(
        "out", ms.collect("out")
    )
    return job
