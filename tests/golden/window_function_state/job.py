"""A window function with state per window, state per key, panes, a side output, and a call when the window is forgotten."""

import millstream as ms
from millstream.testing import WATERMARK

ORDER_KEY = {"out": ["user"], "closed": ["user"]}


class Changes(ms.WindowFunction):
    shown = ms.window_state(ms.ValueState(int))
    seen = ms.window_state(ms.ListState(int))
    windows = ms.ValueState(int)

    def process(self, key, window, rows, ctx):
        total = sum(row["amount"] for row in rows)
        if ctx.pane.is_first:
            self.windows.update((self.windows.value() or 0) + 1)
        change = total - (self.shown.value() or 0)
        self.shown.update(total)
        self.seen.add(total)
        pane = f"{ctx.pane.index}{ctx.pane.timing}"
        yield {"user": key["user"], "number": self.windows.value(), "change": change, "pane": pane}

    def clear(self, ctx):
        ctx.output("closed", {"user": ctx.key[0], "start": ctx.window.start, "totals": self.seen.get()})


def job():
    job = ms.Job("window-function-state")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="1h")
    trigger = ms.trigger.event_time().early(ms.trigger.count(1))
    result = (
        rows.key_by("user")
        .window(ms.tumbling("10s"), trigger=trigger, allowed_lateness="10s")
        .process(
            Changes,
            schema="user string, number long, change long, pane string",
            outputs={"closed": "user string, start long, totals array<long>"},
            id="w",
        )
    )
    result.sink("out", ms.collect("out"))
    result.side_output("closed").sink("closed", ms.collect("closed"))
    return job


def row(user, amount, at):
    return {"user": user, "amount": amount, "at": at}


def inputs():
    return {
        "in": [
            row("a", 1, 0),
            row("a", 2, 5000),
            row("b", 4, 6000),
            WATERMARK(9999),
            row("a", 8, 7000),
            row("a", 16, 12_000),
            WATERMARK(19_999),
            row("b", 32, 21_000),
        ]
    }


def expected():
    """Each firing gives what changed; the number of a window counts the windows of its key."""
    early, on_time, late = "EARLY", "ON_TIME", "LATE"
    found = {
        "a": [
            (1, 1, 0, early),
            (1, 2, 1, early),
            (1, 0, 2, on_time),
            (1, 8, 3, late),
            (2, 16, 0, early),
            (2, 0, 1, on_time),
        ],
        "b": [(1, 4, 0, early), (1, 0, 1, on_time), (2, 32, 0, early), (2, 0, 1, on_time)],
    }
    closed = [("a", 0, [1, 3, 3, 11]), ("b", 0, [4, 4]), ("a", 10_000, [16, 16]), ("b", 20_000, [32, 32])]
    return {
        "out": [
            {"user": user, "number": number, "change": change, "pane": f"{index}{timing}"}
            for user, some in found.items()
            for number, change, index, timing in some
        ],
        "closed": [{"user": user, "start": start, "totals": totals} for user, start, totals in closed],
    }
