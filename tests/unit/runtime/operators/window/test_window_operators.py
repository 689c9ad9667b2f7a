"""Vectorised windows, row-by-row windows and a plain oracle agree under any watermarks."""

from collections import Counter, defaultdict
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.errors import StepFailed
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.runtime.operators.window import choice
from millstream.state.pages import NEVER

SCHEMA = "k string, at long, v long"
RUN = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def job_of(window, lateness):
    job = ms.Job("windows", max_parallelism=8)
    made = (
        job.source("in", ms.memory([]), schema=SCHEMA)
        .event_time("at")
        .key_by("k")
        .window(window, allowed_lateness=lateness / 1000)
        .aggregate(n=ms.count(), total=ms.sum("v"), first=ms.first("v"), last=ms.last("v"), id="w")
    )
    made.sink("out", ms.collect("x"))
    made.late.sink("late", ms.collect("y"))
    return job


def row_by_row():
    return mock.patch.object(choice, "is_on_grid", return_value=False)


class Oracle:
    """Flink's rules, one row and one window at a time."""

    def __init__(self, size, slide, offset, lateness):
        self.size, self.slide, self.offset, self.lateness = size, slide, offset, lateness
        self.mark, self.held = MIN_TIME, defaultdict(list)

    def epoch(self, rows, mark):
        fired = [w for w in self.held if self.mark < w[1] + self.size - 1 <= mark]
        out = Counter({(*w, *self.result(w)): 1 for w in fired})
        self.mark = mark
        late, again = [], set()
        for row in rows:
            newest = (row["at"] - self.offset) // self.slide * self.slide + self.offset
            starts = [newest - i * self.slide for i in range(self.size // self.slide)]
            kept = [(row["k"], start) for start in starts if start + self.size - 1 + self.lateness > mark]
            for window in kept:
                self.held[window].append((newest, row["v"]))
            again |= {w for w in kept if w[1] + self.size - 1 <= mark}
            late += [] if kept else [row]
        out += Counter({(*w, *self.result(w)): 1 for w in again})
        self.held = defaultdict(
            list, {w: v for w, v in self.held.items() if w[1] + self.size - 1 + self.lateness > mark}
        )
        return out, late

    def result(self, window):
        values = [v for _, v in self.held[window] if v is not None]
        # Across bins `first` and `last` follow time, within a bin the order of arrival.
        ordered = [v for _, v in sorted(self.held[window], key=lambda item: item[0]) if v is not None]
        total = sum(values) if values else None
        return len(self.held[window]), total, ordered[0] if values else None, ordered[-1] if values else None


def as_counter(rows):
    return Counter((row["k"], row["at"], row["v"]) for row in rows)


def windows(rows):
    found = []
    for row in rows:
        start, end = (round(row[name].timestamp() * 1000) for name in ("window_start", "window_end"))
        found.append((row["k"], start, row["n"], row["total"], row["first"], row["last"]))
        assert end > start
    return found


rows_ = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", "", None]),
            "at": st.integers(-30, 40),
            "v": st.one_of(st.none(), st.integers(-5, 5)),
        }
    ),
    max_size=8,
)
epochs_ = st.lists(st.tuples(rows_, st.one_of(st.none(), st.integers(0, 25))), max_size=6)
shapes = st.sampled_from([(10, 10, 0), (10, 10, 3), (10, 5, 2), (9, 3, -1)])


def marks_of(epochs):
    mark = MIN_TIME
    for _, step in epochs:
        if step is not None:
            mark = step - 35 if mark == MIN_TIME else mark + step
        yield mark


def window_of(shape):
    size, slide, offset = (part / 1000 for part in shape)
    return ms.tumbling(size, offset=offset) if size == slide else ms.sliding(size, slide, offset=offset)


@RUN
@given(
    shape=shapes,
    lateness=st.sampled_from([0, 1, 7, 100]),
    epochs=epochs_,
    parallelism=st.integers(1, 3),
    page=st.sampled_from([1, 1 << 17]),
)
def test_vectorised_windows_equal_the_oracle(shape, lateness, epochs, parallelism, page):
    run = Epochs(job_of(window_of(shape), lateness), parallelism=parallelism, page_bytes=page)
    oracle = Oracle(*shape, lateness)
    for (rows, _), mark in zip([*epochs, ([], None)], [*marks_of(epochs), MAX_TIME], strict=True):
        made = run.run(rows, mark, terminal=mark == MAX_TIME)
        expected, late = oracle.epoch(rows, mark)
        assert Counter(windows(made["out"])) == expected
        assert as_counter(made["late"]) == as_counter(late)
        assert made.event_due["w"] > mark, "a due time in the past wakes the step for ever"
        assert not rows or made.counts["w"].is_balanced
    assert made.event_due["w"] == NEVER
    assert run.is_empty


@RUN
@given(shape=shapes, lateness=st.sampled_from([0, 1, 7, 100]), epochs=epochs_)
def test_row_by_row_windows_equal_the_oracle(shape, lateness, epochs):
    with row_by_row():
        run = Epochs(job_of(window_of(shape), lateness), parallelism=2, page_bytes=60)
        oracle = Oracle(*shape, lateness)
        for (rows, _), mark in zip([*epochs, ([], None)], [*marks_of(epochs), MAX_TIME], strict=True):
            made = run.run(rows, mark, terminal=mark == MAX_TIME)
            expected, late = oracle.epoch(rows, mark)
            # A late row fires its window at once, so only the last firing of a window is the epoch's result.
            last = {window[:2]: window[2:4] for window in windows(made["out"])}
            assert last == {window[:2]: window[2:4] for window in expected}
            assert as_counter(made["late"]) == as_counter(late)
            assert made.event_due["w"] > mark
            assert not rows or made.counts["w"].is_balanced
        assert made.event_due["w"] == NEVER
        assert run.is_empty


@pytest.mark.parametrize("lateness", [0, 10])
def test_a_window_fires_again_only_within_its_lateness(lateness):
    run = Epochs(job_of(ms.tumbling(0.01), lateness))
    row = {"k": "a", "at": 5, "v": 1}
    run.run([row])
    assert [w[2] for w in windows(run.run([], 9)["out"])] == [1]
    made = run.run([row])
    assert (len(made["late"]), [w[2] for w in windows(made["out"])]) == ((1, []) if lateness == 0 else (0, [2]))
    made = run.run([row], 19)
    assert (len(made["late"]), made["out"]) == (1, [])
    assert run.is_empty


def test_a_due_time_is_reported_for_every_window_and_its_clean_up():
    run = Epochs(job_of(ms.sliding(0.01, 0.005), 3))
    assert run.run([{"k": "a", "at": 7, "v": 1}]).event_due == {"w": 9}
    assert run.run([], 9).event_due == {"w": 14}
    assert run.run([], 14).event_due == {"w": 17}
    assert run.run([], 17).event_due == {"w": NEVER}


def session_job(lateness=0):
    job = ms.Job("sessions")
    made = (
        job.source("in", ms.memory([]), schema=SCHEMA)
        .event_time("at")
        .key_by("k")
        .window(ms.session(0.01), allowed_lateness=lateness / 1000)
        .process(
            lambda key, window, rows: [
                {"k": key["k"], "s": window.start, "e": window.end, "v": [r["v"] for r in rows]}
            ],
            schema="k string, s long, e long, v array<long>",
            id="w",
        )
    )
    made.sink("out", ms.collect("x"))
    made.late.sink("late", ms.collect("y"))
    return job


def at(time, value):
    return {"k": "a", "at": time, "v": value}


def test_sessions_merge_and_set_their_content():
    run = Epochs(session_job())
    run.run([at(0, 1), at(30, 2)])
    made = run.run([at(15, 3), at(10, 4), at(22, 5)])
    assert made["out"] == []
    assert made.event_due == {"w": 39}
    made = run.run([], 39)
    assert [(row["s"], row["e"], sorted(row["v"])) for row in made["out"]] == [(0, 40, [1, 2, 3, 4, 5])]
    assert run.is_empty


def test_sessions_that_only_touch_are_one_and_a_late_row_joins_an_open_one():
    run = Epochs(session_job())
    run.run([at(20, 1)], 15)
    made = run.run([at(10, 2), at(3, 3), at(4, 4)])
    assert [row["at"] for row in made["late"]] == []
    assert [(row["s"], row["e"]) for row in run.run(terminal=True)["out"]] == [(3, 30)]
    run = Epochs(session_job())
    run.run([at(20, 1)], 15)
    made = run.run([at(3, 3)])
    assert [row["at"] for row in made["late"]] == [3]


def test_a_session_that_fired_fires_again_within_its_lateness_and_waits_when_it_is_extended():
    run = Epochs(session_job(lateness=100))
    run.run([at(0, 1)])
    assert len(run.run([], 9)["out"]) == 1
    assert [row["v"] for row in run.run([at(0, 2)])["out"]] == [[1, 2]]
    assert run.run([at(5, 3)])["out"] == []
    assert [(row["e"], row["v"]) for row in run.run([], 14)["out"]] == [(15, [1, 2, 3])]
    run.run(terminal=True)
    assert run.is_empty


def test_a_row_without_event_time_names_the_window():
    job = ms.Job("no-time")
    timed = job.source("in", ms.memory([]), schema=SCHEMA)
    joined = timed.event_time("at").union(job.source("other", ms.memory([]), schema=SCHEMA), id="both")
    joined.key_by("k").window(ms.tumbling("1s")).aggregate(n=ms.count(), id="w").sink("out", ms.collect("x"))
    with pytest.raises(StepFailed) as caught:
        Epochs(job).run([at(1, 1)], source="other")
    assert caught.value.step == "w"
