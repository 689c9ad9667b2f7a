"""Windows of event time with the default trigger give the same results whatever the order of rows within the delay, the
cuts of epochs and the parallelism: row by row with panes, as window functions with state, and by days of a time zone."""

import datetime as dt
import zoneinfo
from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.local.test_properties import (
    DELAY,
    GAP,
    RUN,
    SCHEMA,
    SIZE,
    SLIDE,
    cuts,
    fixed,
    in_time,
    sessions,
    summary,
)

import millstream as ms
from millstream.testing import ABORT, run_job

HOUR = 3_600_000
BASE = round(dt.datetime(2024, 10, 26, tzinfo=dt.UTC).timestamp()) * 1000
"""The clocks of Berlin are put back in the night after."""
WINDOWS = {
    "tumbling": ms.tumbling(SIZE / 1000),
    "sliding": ms.sliding(SIZE / 1000, SLIDE / 1000, offset=0.002),
    "session": ms.session(GAP / 1000),
}


class Summed(ms.WindowFunction):
    """Keeps what it has shown per window, and how many windows of the key it has seen."""

    shown = ms.window_state(ms.ValueState(int))
    windows = ms.ValueState(int)

    def process(self, key, window, rows, ctx):
        assert self.shown.value() is None, "a window without lateness fires once"
        self.shown.update(len(rows))
        self.windows.update((self.windows.value() or 0) + 1)
        n, total, most = summary([row["value"] for row in rows])
        bounds = {"start": window.start, "end": window.end, "number": self.windows.value()}
        yield {"key": key["key"], "n": n, "total": total, "most": most, **bounds, "pane": str(ctx.pane.timing)}

    def on_merge(self, window, ctx):
        assert ctx.merged(self.shown) == []


def job():
    job = ms.Job("windows")
    keyed = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at", max_delay=DELAY / 1000).key_by("key")
    made = "key string, n long, total long, most long, start long, end long, number long, pane string"
    for name, window in WINDOWS.items():
        aggregates = {"n": ms.count(), "total": ms.sum("value"), "most": ms.max("value")}
        keyed.window(window).aggregate(**aggregates, pane=True, id=f"{name}-w").sink(name, ms.collect(name))
        keyed.window(window).process(Summed, schema=made, id=f"{name}-f").sink(f"{name}-called", ms.collect(name))
    return job


def found(rows):
    """Results by window; each window fires once, on time."""
    windows = {}
    for row in rows:
        bounds = [round(row[name].timestamp() * 1000) for name in ("window_start", "window_end")]
        assert (row["key"], *bounds) not in windows
        assert (row["pane_index"], row["pane_timing"]) == (0, "ON_TIME")
        windows[row["key"], *bounds] = (row["n"], row["total"], row["most"])
    return windows


def called(rows):
    assert {row["pane"] for row in rows} <= {"ON_TIME"}
    numbers = defaultdict(list)
    for row in rows:
        numbers[row["key"]].append(row["number"])
    assert all(sorted(some) == list(range(1, len(some) + 1)) for some in numbers.values())
    return {(row["key"], row["start"], row["end"]): (row["n"], row["total"], row["most"]) for row in rows}


@RUN
@given(rows=in_time(), cut=cuts, crash=st.integers(0, 20))
def test_triggered_windows_equal_the_oracle(rows, cut, crash):
    script = [*rows[:crash], ABORT(), *rows[crash:]] if crash < len(rows) else rows
    output = run_job(job(), {"in": script}, **cut)
    wanted = {
        "tumbling": fixed(rows, SIZE, SIZE, 0),
        "sliding": fixed(rows, SIZE, SLIDE, 2),
        "session": sessions(rows),
    }
    for name, windows in wanted.items():
        assert found(output[name]) == windows
        assert called(output[f"{name}-called"]) == windows
    assert all(counts.is_balanced for counts in output.counts.values()), output.counts


hours = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 70)), max_size=15)


@RUN
@given(rows=hours, order=st.randoms(use_true_random=False), cut=cuts)
def test_days_of_a_zone_equal_the_dates(rows, order, cut):
    """Vectorised and row by row: the 25 hours of 27 October 2024 in Berlin are one day."""
    job = ms.Job("days")
    keyed = job.source("in", ms.memory([]), schema="k string, at long").event_time("at", max_delay="4h").key_by("k")
    days = keyed.window(ms.tumbling("1d", time_zone="Europe/Berlin"))
    days.aggregate(n=ms.count(), id="fast").sink("fast-out", ms.collect("f"))
    days.aggregate(n=ms.count(), pane=True, id="slow").sink("slow-out", ms.collect("s"))
    shuffled = sorted(rows, key=lambda row: row[1] + order.randrange(5))
    script = [{"k": key, "at": BASE + hour * HOUR} for key, hour in shuffled]
    output = run_job(job, {"in": script}, **cut)
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    dates = Counter((key, dt.datetime.fromtimestamp(BASE / 1000 + hour * 3600, zone).date()) for key, hour in rows)
    for sink in ("fast-out", "slow-out"):
        assert {(row["k"], row["window_start"].astimezone(zone).date()): row["n"] for row in output[sink]} == dates


@RUN
@given(rows=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=20), cut=cuts)
def test_count_windows_do_not_depend_on_cuts(rows, cut):
    """They go by the order in which rows come, which is the same however the run is cut."""
    job = ms.Job("counts")
    keyed = job.source("in", ms.memory([]), schema="k string, v long").key_by("k")
    keyed.window(ms.count_window(3)).aggregate(total=ms.sum("v"), id="t").sink("tumbling", ms.collect("t"))
    keyed.window(ms.count_window(3, 2)).aggregate(total=ms.sum("v"), id="s").sink("sliding", ms.collect("s"))
    output = run_job(job, {"in": [{"k": key, "v": value} for key, value in rows]}, **cut)
    for key in "ab":
        values = [value for other, value in rows if other == key]
        sums = [sum(values[end - 3 : end]) for end in range(3, len(values) + 1, 3)]
        assert [row["total"] for row in output["tumbling"] if row["k"] == key] == sums
        sums = [sum(values[max(0, end - 3) : end]) for end in range(2, len(values) + 1, 2)]
        assert [row["total"] for row in output["sliding"] if row["k"] == key] == sums
