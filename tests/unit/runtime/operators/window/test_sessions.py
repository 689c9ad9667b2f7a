"""Sessions that are merged many at a time equal a plain oracle under any watermarks, and sessions that go row by row."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_window_operators import RUN, as_counter, at, epochs_, marks_of
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.errors import StepFailed
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.runtime.operators.window.sessions import SessionAggregateOperator, sessions_of
from millstream.state.pages import NEVER
from millstream.testing import run_job

GAP = 5
SCHEMA = "k string, at long, v long"
AGGREGATES = {"n": ms.count(), "total": ms.sum("v"), "mean": ms.avg("v"), "kinds": ms.count_distinct("v")}


def job_of(lateness, **more):
    job = ms.Job("sessions", max_parallelism=8)
    keyed = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at").key_by("k")
    made = keyed.window(ms.session(GAP / 1000), allowed_lateness=lateness / 1000).aggregate(
        **AGGREGATES, **more, id="w"
    )
    made.sink("out", ms.collect("x"))
    made.late.sink("late", ms.collect("y"))
    return job


def touching(spans):
    """Spans (start, end, values) as sessions: side by side, in the order of time."""
    found = []
    for start, end, values in sorted(spans, key=lambda span: span[:2]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]), found[-1][2] + values)
        else:
            found.append((start, end, values))
    return found


class Oracle:
    """One key at a time, with lists: held sessions and new rows become sessions; those that are gone are late."""

    def __init__(self, lateness):
        self.lateness, self.mark, self.held = lateness, MIN_TIME, defaultdict(list)

    def epoch(self, rows, mark):
        out, late = Counter(), []
        for key, spans in self.held.items():
            out += Counter(self.result(key, span) for span in spans if self.mark < span[1] - 1 <= mark)
            self.held[key] = [span for span in spans if span[1] - 1 + self.lateness > mark]
        self.mark = mark
        for key in {row["k"] for row in rows}:
            mine = [(row["at"], row["at"] + GAP, [row]) for row in rows if row["k"] == key]
            merged = touching(mine + self.held[key])
            late += [row for span in merged if self.is_gone(span) for row in span[2]]
            self.held[key] = [span for span in merged if not self.is_gone(span)]
            news = {id(row) for row in rows}
            again = [s for s in self.held[key] if s[1] - 1 <= mark and any(id(row) in news for row in s[2])]
            out += Counter(self.result(key, span) for span in again)
        return out, late

    def is_gone(self, span):
        return span[1] - 1 + self.lateness <= self.mark

    def result(self, key, span):
        values = [row["v"] for row in span[2] if row["v"] is not None]
        total = sum(values) if values else None
        mean = sum(values) / len(values) if values else None
        return key, span[0], span[1], len(span[2]), total, mean, len(set(values))


def shown(rows):
    bounds = [[round(row[name].timestamp() * 1000) for name in ("window_start", "window_end")] for row in rows]
    return Counter(
        (row["k"], *some, row["n"], row["total"], row["mean"], row["kinds"])
        for row, some in zip(rows, bounds, strict=True)
    )


@RUN
@given(
    lateness=st.sampled_from([0, 1, 7, 100]),
    epochs=epochs_,
    parallelism=st.integers(1, 3),
    page=st.sampled_from([1, 1 << 17]),
)
def test_sessions_equal_the_oracle(lateness, epochs, parallelism, page):
    run = Epochs(job_of(lateness), parallelism=parallelism, page_bytes=page)
    assert isinstance(run._programs[1].operators["w"], SessionAggregateOperator)
    oracle = Oracle(lateness)
    for (rows, _), mark in zip([*epochs, ([], None)], [*marks_of(epochs), MAX_TIME], strict=True):
        made = run.run(rows, mark, terminal=mark == MAX_TIME)
        expected, late = oracle.epoch(rows, mark)
        assert shown(made["out"]) == expected
        assert as_counter(made["late"]) == as_counter(late)
        assert made.event_due["w"] > mark, "a due time in the past wakes the step for ever"
        assert not rows or made.counts["w"].is_balanced
    assert made.event_due["w"] == NEVER
    assert run.is_empty


@RUN
@given(epochs=epochs_)
def test_sessions_in_time_equal_those_that_go_row_by_row(epochs):
    """`first` depends on the order of rows, so a step with it goes row by row."""
    fast, slow = Epochs(job_of(0)), Epochs(job_of(0, earliest=ms.first("v")))
    assert not isinstance(slow._programs[1].operators["w"], SessionAggregateOperator)
    for rows, _ in epochs:
        assert fast.run(rows)["out"] == slow.run(rows)["out"] == []
    assert shown(fast.run(terminal=True)["out"]) == shown(slow.run(terminal=True)["out"])


@RUN
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 50), st.integers(1, 30)), min_size=1, max_size=12))
def test_intervals_that_touch(spans):
    codes, starts, lengths = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    order, firsts, session = sessions_of(codes, starts, starts + lengths)
    found = Counter()
    for number in range(len(firsts)):
        mine = order[session == number]
        found[int(codes[mine[0]]), int(starts[mine].min()), int((starts + lengths)[mine].max())] += len(mine)
        assert len(set(codes[mine].tolist())) == 1
    wanted = Counter()
    for code in {span[0] for span in spans}:
        mine = [(start, start + length, [1]) for other, start, length in spans if other == code]
        wanted.update({(code, start, end): len(values) for start, end, values in touching(mine)})
    assert found == wanted


def test_a_late_row_is_taken_with_rows_of_its_epoch_that_reach_further():
    run = Epochs(job_of(0))
    run.run([], 20)
    made = run.run([at(13, 1), at(17, 2), at(9, 4), at(2, 8)])
    assert [row["at"] for row in made["late"]] == [2]
    assert [key[1:5] for key in shown(run.run(terminal=True)["out"])] == [(9, 22, 3, 7)]


def test_a_row_without_event_time_names_the_window():
    job = ms.Job("no-time")
    timed = job.source("in", ms.memory([]), schema=SCHEMA)
    joined = timed.event_time("at").union(job.source("other", ms.memory([]), schema=SCHEMA), id="both")
    joined.key_by("k").window(ms.session("1s")).aggregate(n=ms.count(), id="w").sink("out", ms.collect("x"))
    with pytest.raises(StepFailed) as caught:
        Epochs(job).run([at(1, 1)], source="other")
    assert caught.value.step == "w"


JOINED = [("one", 162), ("two", 154), (None, 157), ("three", 160)]
"""Two sessions, the later one first; then a row that makes them one, and one more."""
SESSIONS = ms.session("5ms")
IN_ORDER = {
    "aggregate": lambda keyed: keyed.window(SESSIONS).aggregate(f=ms.first("v"), l=ms.last("v"), id="w"),
    "process": lambda keyed: keyed.window(SESSIONS).process(ends_of, schema="f string, l string", id="w"),
    "triggered": lambda keyed: keyed.window(SESSIONS, trigger=ms.trigger.every("1d", time="event")).process(
        ends_of, schema="f string, l string", id="w"
    ),
}


def ends_of(key, window, rows):
    values = [row["v"] for row in rows if row["v"] is not None]
    return [{"f": values[0], "l": values[-1]}]


@pytest.mark.parametrize("rows_per_epoch", [1, 2, 3, 10])
@pytest.mark.parametrize("kind", IN_ORDER)
@pytest.mark.parametrize(("count", "ends"), [(3, ("two", "one")), (4, ("two", "three"))])
def test_sessions_made_one_follow_each_other_in_time_and_the_joining_row_is_last(kind, count, ends, rows_per_epoch):
    job = ms.Job("joined", rows_per_epoch=rows_per_epoch)
    rows = job.source("in", ms.memory([]), schema="k string, v string, at long")
    IN_ORDER[kind](rows.event_time("at", max_delay="1d").key_by("k")).sink("o", ms.collect("o"))
    made = run_job(job, {"in": [{"k": "a", "v": value, "at": time} for value, time in JOINED[:count]]})["o"]
    assert [(row["f"], row["l"]) for row in made] == [ends]
