"""A trigger of the user with state and timers per window: fires when the amounts reach a limit, or after ten quiet seconds."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

ORDER_KEY = {"out": ["user"]}


class Limit(ms.Trigger):
    held = ms.ValueState(int)
    deadline = ms.ValueState(int)

    def on_row(self, row, window, ctx):
        if self.deadline.value() is not None:
            ctx.delete_processing_timer(self.deadline.value())
        self.deadline.update(ctx.now + 10_000)
        ctx.processing_timer(self.deadline.value())
        self.held.update((self.held.value() or 0) + row["amount"])
        return self.fired(ctx) if self.held.value() >= 100 else ms.TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        assert time == self.deadline.value(), "a deleted timer does not come"
        return self.fired(ctx)

    def fired(self, ctx):
        ctx.delete_processing_timer(self.deadline.value())
        self.held.clear()
        self.deadline.clear()
        return ms.TriggerResult.FIRE_AND_PURGE


def listed(key, window, rows):
    yield {"user": key["user"], "amounts": [row["amount"] for row in rows]}


def job():
    job = ms.Job("trigger-custom")
    keyed = job.source("in", ms.memory([]), schema="user string, amount long").key_by("user")
    keyed.window(ms.global_window(), trigger=Limit).process(
        listed, schema="user string, amounts array<long>", id="w"
    ).sink("out", ms.collect("out"))
    return job


def row(user, amount):
    return {"user": user, "amount": amount}


def inputs():
    tick = dict(ADVANCE_CLOCK("10s"))
    return {
        "in": [
            row("a", 60),
            row("b", 30),
            row("a", 50),
            row("a", 10),
            tick,
            row("b", 80),
            row("b", 20),
            row("c", 5),
            row("b", 90),
            row("a", 7),
            tick,
            tick,
            row("c", 100),
            row("c", 1),
            tick,
        ]
    }


def expected():
    """a: 60 + 50 reach the limit, 10 waits until 10 s, 7 until 20 s. b: 30 until 10 s, then 80 + 20; 90 until 20 s."""
    found = {"a": [[60, 50], [10], [7]], "b": [[30], [80, 20], [90]], "c": [[5], [100], [1]]}
    return {"out": [{"user": user, "amounts": amounts} for user, some in found.items() for amounts in some]}
