"""One job with every kind of stored state; paths are relative, so that its checkpoint can be moved with its files.

Every file under `tests/compat/*/` was written by an earlier version of this very job; it must stay as it is.
"""

import json
import os
import random
from pathlib import Path

import millstream as ms

SCHEMA = "user string, amount long, at long"
ROWS, ROWS_PER_FILE = 240, 30
WRITTEN = 1_700_000_000
"""When the files of the input say they were written: a file that changed since it was found is refused."""


def rows():
    """What the job reads: users come and go, times are out of order by up to three seconds."""
    made = random.Random(366634)
    for number in range(ROWS):
        late = made.randrange(3_000)
        yield {"user": f"u{made.randrange(9)}", "amount": made.randrange(1, 50), "at": 10_000 + number * 700 - late}


def write_input(folder):
    """The rows as files that never change."""
    folder.mkdir()
    made = list(rows())
    for start in range(0, ROWS, ROWS_PER_FILE):
        file = Path(folder) / f"part-{start:04}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in made[start : start + ROWS_PER_FILE]))
        os.utime(file, (WRITTEN, WRITTEN))


class Spending(ms.ProcessFunction):
    """Every kind of state a function may hold, and a timer."""

    total = ms.ValueState(int)
    recent = ms.ListState(int)
    per_minute = ms.MapState(int, int)

    def process(self, row, ctx):
        """Keep the row; report ten seconds later."""
        minute = row["at"] // 60_000
        self.total.update((self.total.value() or 0) + row["amount"])
        self.recent.add(row["amount"])
        self.per_minute.put(minute, self.per_minute.get(minute, 0) + 1)
        ctx.event_timer(row["at"] + 10_000)

    def on_timer(self, timestamp, ctx):
        """Report what is known."""
        known = sorted(self.per_minute.items())
        yield {"user": ctx.key[0], "at": timestamp, "total": self.total.value(), "rows": sum(n for _, n in known)}


def spread(key, window, rows):
    """A window function: what lies between the smallest and the largest."""
    amounts = [row["amount"] for row in rows]
    yield {"user": key["user"], "start": window.start, "spread": max(amounts) - min(amounts)}


def larger(so_far, row):
    """A reducer."""
    return row if row["amount"] > so_far["amount"] else so_far


def build():
    """The job."""
    job = ms.Job("compat", rows_per_epoch=30, parallelism=2)
    source = job.source("rows", ms.files("in", format="json"), schema=SCHEMA)
    timed = source.event_time("at", max_delay="3s")
    users = timed.key_by("user")

    def keep(stream, name):
        stream.sink(name, ms.files(f"out/{name}", format="json"))

    keep(
        users.aggregate(n=ms.count(), total=ms.sum("amount"), kinds=ms.count_distinct("amount"), id="running"),
        "running",
    )
    keep(users.reduce(larger, id="largest"), "largest")
    keep(users.process(Spending, schema="user string, at long, total long, rows long", id="spending"), "spending")
    keep(users.window(ms.tumbling("20s")).aggregate(n=ms.count(), total=ms.sum("amount"), id="tumbling"), "tumbling")
    keep(users.window(ms.sliding("40s", "10s")).aggregate(mean=ms.avg("amount"), id="sliding"), "sliding")
    keep(users.window(ms.session("4s")).aggregate(n=ms.count(), id="sessions"), "sessions")
    keep(
        users.window(ms.tumbling("30s")).process(spread, schema="user string, start long, spread long", id="spread"),
        "spread",
    )
    keep(users.window(ms.sliding("30s", "15s")).reduce(larger, id="window-largest"), "window-largest")
    early = users.window(ms.tumbling("30s"), trigger=ms.trigger.event_time().early(ms.trigger.count(3)))
    keep(early.aggregate(n=ms.count(), id="early"), "early")
    keep(users.deduplicate(keep="first", by="at", id="firsts"), "firsts")
    keep(users.top_n(2, by="amount desc, at", id="best"), "best")
    large, small = timed.filter("amount >= 30"), timed.filter("amount < 30").select("user", less="amount", then="at")
    versions = small.event_time("then", max_delay="3s").key_by("user")
    keep(large.key_by("user").join(versions, within=("-5s", "5s"), how="left", prefix="r_", id="pairs"), "pairs")
    keep(large.key_by("user").temporal_join(versions, how="left", prefix="r_", id="valid"), "valid")
    low = ms.pattern.begin("low").where("amount < 25")
    rising = low.followed_by("high").where("amount >= 40").within("30s")
    keep(users.pattern(rising).measures(low="low.at", high="high.at", id="rising"), "rising")
    return job


job = build()
