"""Sessions that become one: counts add up, state of triggers and functions goes through on_merge, content is set once."""

import datetime as dt

import millstream as ms
from millstream.testing import WATERMARK

ORDER_KEY = {"counted": ["user"], "stated": ["user"], "limited": ["user"]}
FIRE, CONTINUE = ms.TriggerResult.FIRE, ms.TriggerResult.CONTINUE


class Limit(ms.Trigger):
    held = ms.ValueState(int)

    def on_row(self, row, window, ctx):
        ctx.event_timer(window.max_timestamp)
        self.held.update((self.held.value() or 0) + row["amount"])
        return FIRE if self.held.value() >= 10 else CONTINUE

    def on_event_time(self, time, window, ctx):
        return FIRE if time == window.max_timestamp else CONTINUE

    def on_merge(self, window, ctx):
        self.held.update(sum(ctx.merged(self.held)))
        ctx.event_timer(window.max_timestamp)


class Numbered(ms.WindowFunction):
    firings = ms.window_state(ms.ValueState(int))

    def process(self, key, window, rows, ctx):
        self.firings.update((self.firings.value() or 0) + 1)
        amounts = [row["amount"] for row in rows]
        yield {
            "user": key["user"],
            "start": window.start,
            "end": window.end,
            "amounts": amounts,
            "n": self.firings.value(),
        }

    def on_merge(self, window, ctx):
        self.firings.update(sum(ctx.merged(self.firings)))


def job():
    job = ms.Job("session-triggers")
    rows = job.source("in", ms.memory([]), schema="user string, amount long, at long").event_time("at", max_delay="1h")
    keyed, session = rows.key_by("user"), ms.session("10s")
    early = ms.trigger.event_time().early(ms.trigger.count(3))
    keyed.window(session, trigger=early).aggregate(n=ms.count(), total=ms.sum("amount"), pane=True, id="c").sink(
        "counted", ms.collect("c")
    )
    keyed.window(session, trigger=Limit, accumulation="discarding").reduce(
        lambda a, b: {**b, "amount": a["amount"] + b["amount"]}, id="l"
    ).sink("limited", ms.collect("l"))
    keyed.window(session, trigger=early).process(
        Numbered, schema="user string, start long, end long, amounts array<long>, n long", id="s"
    ).sink("stated", ms.collect("s"))
    return job


def row(user, amount, at):
    return {"user": user, "amount": amount, "at": at}


def inputs():
    rows = [row("a", 1, 0), row("a", 2, 25_000), row("b", 9, 0), row("a", 4, 12_000), row("a", 8, 21_000)]
    rows += [row("a", 16, 8_000), row("b", 32, 5_000)]
    return {"in": [*rows, WATERMARK(34_999), row("a", 64, 60_000)]}


def expected():
    """a: 1 | 2 | 4 | then 8 joins 2 and 4: the third row; 16 joins 1 to them: two more rows; ends at 35 s. Then 64 alone."""

    def pane(user, start, end, index, timing, n, total):
        bounds = [dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second) for second in (start, end)]
        named = {"user": user, "window_start": bounds[0], "window_end": bounds[1]}
        return {**named, "pane_index": index, "pane_timing": timing, "n": n, "total": total}

    def stated(user, start, end, amounts, n):
        return {"user": user, "start": start * 1000, "end": end * 1000, "amounts": amounts, "n": n}

    return {
        "counted": [
            pane("a", 12, 35, 0, "EARLY", 3, 14),
            pane("b", 0, 15, 0, "ON_TIME", 2, 41),
            pane("a", 0, 35, 1, "ON_TIME", 5, 31),
            pane("a", 60, 70, 0, "ON_TIME", 1, 64),
        ],
        "stated": [
            stated("a", 12, 35, [4, 2, 8], 1),
            stated("b", 0, 15, [9, 32], 1),
            stated("a", 0, 35, [1, 4, 2, 8, 16], 2),
            stated("a", 60, 70, [64], 1),
        ],
        # The amounts held reach ten with 4 + 2 + 8, and stay above it; what was shown is discarded.
        "limited": [
            row("a", 14, 21_000),
            row("a", 17, 8_000),
            row("b", 41, 5_000),
            row("a", 64, 60_000),
        ],
    }
