"""Windows of the clock that are kept as columns equal those that go row by row, and a plain oracle."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st
from test_window_operators import RUN, SCHEMA, at, rows_
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.runtime.operators.window.clock_bins import ClockWindowOperator
from millstream.state.pages import NEVER

AGGREGATES = {"n": ms.count(), "total": ms.sum("v"), "kinds": ms.count_distinct("v"), "last": ms.last("v")}
SHAPES = st.sampled_from([(10, 10, 0), (10, 10, 3), (10, 5, 2), (9, 3, -1), (12, 1, 0)])


class Timed(ms.ProcessFunction):
    def process(self, row, ctx):
        yield {"n": row["n"], "time": ctx.timestamp}


def window_of(size, slide, offset):
    return ms.sliding(size / 1000, slide / 1000, offset=offset / 1000, time="processing")


def job_of(window, *, timed=False):
    job = ms.Job("clock", max_parallelism=8)
    rows = job.source("in", ms.memory([]), schema=SCHEMA)
    windowed = (rows.event_time("at") if timed else rows).key_by("k").window(window)
    fast = windowed.aggregate(**AGGREGATES, id="fast")
    fast.sink("fast-out", ms.collect("f"))
    windowed.aggregate(**AGGREGATES, pane=True, id="slow").sink("slow-out", ms.collect("s"))
    fast.key_by("k").process(Timed, schema="n long, time long", id="timed").sink("timed-out", ms.collect("t"))
    return job


def shown(rows):
    bounds = [[round(row[name].timestamp() * 1000) for name in ("window_start", "window_end")] for row in rows]
    found = [
        (row["k"], *some, row["n"], row["total"], row["kinds"], row["last"])
        for row, some in zip(rows, bounds, strict=True)
    ]
    assert len({window[:3] for window in found}) == len(found)
    return set(found)


def result(values):
    known = [value for value in values if value is not None]
    return len(values), sum(known) if known else None, len(set(known)), known[-1] if known else None


@RUN
@given(
    shape=SHAPES,
    epochs=st.lists(st.tuples(rows_, st.integers(0, 12)), max_size=6),
    parallelism=st.integers(1, 3),
    page=st.sampled_from([1, 1 << 17]),
)
def test_windows_of_the_clock_equal_the_oracle(shape, epochs, parallelism, page):
    size, slide, offset = shape
    run = Epochs(job_of(window_of(*shape)), parallelism=parallelism, page_bytes=page)
    assert isinstance(run._programs[1].operators["fast"], ClockWindowOperator)
    held, now = defaultdict(list), 0
    for number, (rows, step) in enumerate([*epochs, ([], 1)]):
        now += step
        is_last = number == len(epochs)
        made = run.run(rows, now=now, terminal=is_last)
        over = {window for window in held if window[2] <= now or is_last}
        wanted = {(*window, *result(held.pop(window))) for window in over}
        assert shown(made["fast-out"]) == shown(made["slow-out"]) == wanted
        for row in rows:
            for start in range(now - size + 1, now + 1):
                if (start - offset) % slide == 0:
                    held[row["k"], start, start + size].append(row["v"])
        assert made.processing_due == min((end for _, _, end in held), default=NEVER)
        assert not rows or made.counts["fast"].is_balanced
    assert run.is_empty


def test_results_carry_the_newest_event_time():
    run = Epochs(job_of(window_of(10, 10, 0), timed=True))
    run.run([at(7, 1), at(3, 1)], now=1)
    run.run([at(5, 1)], now=9)
    assert run.run([], now=10)["timed-out"] == [{"n": 3, "time": 7}]


def test_sliding_windows_carry_the_newest_event_time_of_their_rows():
    job = ms.Job("clock")
    rows = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at").key_by("k")
    counted = rows.window(window_of(4, 1, 0)).aggregate(n=ms.count(), id="counted")
    counted.key_by("k").process(Timed, schema="n long, time long", id="timed").sink("out", ms.collect("t"))
    run, made = Epochs(job), []
    for now, came in enumerate([[at(7, 1), at(3, 1)], [], [at(5, 1)], [], [], [], []]):
        made.append([tuple(row.values()) for row in run.run(came, now=now)["out"]])
    # Windows end at 1 to 4 with the first two rows, at 3 to 6 with the last one; it comes in the epoch of clock 2.
    assert made == [[], [(2, 7)], [(2, 7)], [(3, 7)], [(3, 7)], [(1, 5)], [(1, 5)]]
    assert run.is_empty
