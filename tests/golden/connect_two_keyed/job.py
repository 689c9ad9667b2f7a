"""Two keyed streams share state and timers per key: each order waits for its payment, at most ten seconds."""

import millstream as ms


class Match(ms.CoProcessFunction):
    order = ms.ValueState(int)
    paid = ms.ValueState(int)

    def process_left(self, row, ctx):
        if self.paid.value() is not None:
            yield {"id": row["id"], "amount": row["amount"], "paid": self.paid.value()}
            self.paid.clear()
            return
        self.order.update(row["amount"])
        ctx.event_timer(row["at"] + 10_000)

    def process_right(self, row, ctx):
        if self.order.value() is not None:
            yield {"id": row["id"], "amount": self.order.value(), "paid": row["sum"]}
            self.order.clear()
            return
        self.paid.update(row["sum"])

    def on_timer(self, timestamp, ctx):
        if self.order.value() is not None:
            yield {"id": ctx.key[0], "amount": self.order.value(), "paid": None}
            self.order.clear()


def inputs():
    orders = [{"id": number, "amount": number * 10, "at": number * 1000} for number in range(20)]
    payments = [{"id": number, "sum": number * 10, "at": number * 1000 + 3000} for number in range(20) if number % 4]
    return {"orders": orders, "payments": payments}


def expected():
    rows = [(number, number * 10, number * 10 if number % 4 else None) for number in range(20)]
    return {"out": [{"id": key, "amount": amount, "paid": paid} for key, amount, paid in rows]}


def job():
    job = ms.Job("connect-two-keyed")
    orders = job.source("orders", ms.memory([]), schema="id long, amount long, at long").event_time("at")
    payments = job.source("payments", ms.memory([]), schema="id long, sum long, at long").event_time("at")
    matched = orders.key_by("id").connect(payments.key_by("id"))
    matched.process(Match, schema="id long, amount long, paid long", id="match").sink("out", ms.collect("out"))
    return job
