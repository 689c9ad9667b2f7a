"""A value per key: numbered rows, and a state that clears itself at three."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Number(ms.ProcessFunction):
    seen = ms.ValueState(int)

    def process(self, row, ctx):
        count = (self.seen.value() or 0) + 1
        yield {"user": ctx.key[0], "amount": row["amount"], "number": count}
        if count == 3:
            self.seen.clear()
        else:
            self.seen.update(count)


def job():
    job = ms.Job("process-value-state")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    rows.key_by("user").process(Number, schema="user string, amount long, number int", id="n").sink(
        "out", ms.collect("out")
    )
    return job
