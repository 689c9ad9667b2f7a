"""Windows with functions and reductions give what a plain program gives that knows nothing of pages, entries or epochs."""

import dataclasses
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.state.pages import NEVER

SCHEMA = "k string, at long, v string"
GAP = 4
RUN = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
WINDOWS = {
    "tumbling": ms.tumbling(0.01, offset=-0.003),
    "sliding": ms.sliding(0.009, 0.003),
    "cumulative": ms.cumulative(0.012, 0.004, offset=0.001),
    "session": ms.session(GAP / 1000),
}
SHAPES = {"tumbling": (10, 10, -3), "sliding": (9, 3, 0)}
TRIGGERS = {
    "default": None,
    "end": ms.trigger.event_time(),
    "count": ms.trigger.count(2),
    "purging": ms.trigger.purging(ms.trigger.count(2)),
    "early": ms.trigger.event_time().early(ms.trigger.count(3)),
}


def shown(key, window, rows):
    return [{"k": key["k"], "s": window.start, "e": window.end, "v": "".join(row["v"] for row in rows)}]


def concatenated(held, came):
    return {"k": held["k"], "at": held["at"], "v": held["v"] + came["v"]}


def job_of(kind, closing, lateness, trigger):
    job = ms.Job("windows", max_parallelism=8)
    stream = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at").key_by("k")
    given = {} if TRIGGERS[trigger] is None else {"trigger": TRIGGERS[trigger]}
    windows = stream.window(WINDOWS[kind], allowed_lateness=lateness / 1000, **given)
    if closing == "aggregate":
        made = windows.aggregate(
            n=ms.count(), least=ms.min("v"), first=ms.first("v"), kinds=ms.count_distinct("v"), id="w"
        )
    elif closing == "process":
        made = windows.process(shown, schema="k string, s long, e long, v string", id="w")
    else:
        made = windows.reduce(concatenated, id="w")
    made.sink("out", ms.collect("x"))
    made.late.sink("late", ms.collect("y"))
    return job


@dataclasses.dataclass(eq=False)
class Opened:
    key: str
    start: int
    end: int
    rows: list
    count: int = 0


class Plain:
    """All open windows in one list; every question is answered by looking at all of them."""

    def __init__(self, kind, closing, lateness, trigger):
        self.kind, self.closing, self.lateness, self.trigger = kind, closing, lateness, trigger
        self.mark, self.open, self.fired = MIN_TIME, [], Counter()

    def epoch(self, rows, mark):
        self.fired, late = Counter(), []
        if self.trigger in {"default", "end", "early"}:
            for window in self.open:
                if self.mark < window.end - 1 <= mark:
                    self.fire(window)
                    window.count = 0  # what counted towards an early firing has been shown
        self.mark = mark
        self.open = [window for window in self.open if not self.is_gone(window.end)]
        late = [row for row in rows if not self.add(row)]
        return self.fired, late

    def is_gone(self, end):
        return end - 1 + self.lateness <= self.mark

    def add(self, row):
        windows = [self.session(row)] if self.kind == "session" else self.fixed(row)
        for window in windows:
            if window is not None:
                window.rows.append(row)
                window.count += 1
                self.ask(window)
        return any(window is not None for window in windows)

    def fixed(self, row):
        bounds = [
            (start, end)
            for start in range(row["at"] - 12, row["at"] + 1)
            for end in range(row["at"] + 1, row["at"] + 13)
            if self.is_window(start, end)
        ]
        return [self.opened(row["k"], start, end) for start, end in bounds if not self.is_gone(end)]

    def is_window(self, start, end):
        if self.kind == "cumulative":
            return (start - 1) % 12 == 0 and end - start in {4, 8, 12}
        size, slide, offset = SHAPES[self.kind]
        return (start - offset) % slide == 0 and end - start == size

    def opened(self, key, start, end):
        found = [w for w in self.open if (w.key, w.start, w.end) == (key, start, end)]
        if not found:
            found = [Opened(key, start, end, [])]
            self.open += found
        return found[0]

    def session(self, row):
        start, end = row["at"], row["at"] + GAP
        touched = [w for w in self.open if w.key == row["k"] and w.start <= end and start <= w.end]
        touched.sort(key=lambda window: window.start)
        start, end = min([start, *(w.start for w in touched)]), max([end, *(w.end for w in touched)])
        if self.is_gone(end):
            return None
        self.open = [window for window in self.open if window not in touched]
        rows = [each for window in touched for each in window.rows]
        merged = Opened(row["k"], start, end, rows, sum(window.count for window in touched))
        self.open.append(merged)
        return merged

    def ask(self, window):
        is_over = window.end - 1 <= self.mark
        if self.trigger in {"default", "end", "early"} and is_over:
            self.fire(window)
            window.count = 0  # as above: a session that this row is in may grow on, and count anew
        elif self.trigger in {"count", "purging", "early"} and window.count >= (3 if self.trigger == "early" else 2):
            window.count = 0
            self.fire(window)
            if self.trigger == "purging":
                window.rows = []

    def fire(self, window):
        if not window.rows:
            return
        text = "".join(row["v"] for row in window.rows)
        bounds = (window.start, window.end) if self.closing == "process" else (window.rows[0]["at"],)
        self.fired[window.key, *bounds, text] += 1


rows_ = st.lists(
    st.fixed_dictionaries(
        {"k": st.sampled_from(["a", "b", None]), "at": st.integers(-20, 40), "v": st.sampled_from("uvwxyz")}
    ),
    max_size=8,
)
LATE_THEN_GROWN = [{"k": "a", "at": at, "v": "u"} for at in (0, 0, 0, 12, 13, 8)]
"""A late row fires a session, which then grows until it is not over any more."""
epochs_ = st.lists(st.tuples(rows_, st.one_of(st.none(), st.integers(0, 20))), max_size=6)


def texts(rows):
    return Counter((row["k"], row["at"], row["v"]) for row in rows)


def marks_of(epochs):
    mark = MIN_TIME
    for _, step in epochs:
        if step is not None:
            mark = step - 25 if mark == MIN_TIME else mark + step
        yield mark


@pytest.mark.parametrize("closing", ["process", "reduce"])
@pytest.mark.parametrize("kind", sorted(WINDOWS))
@RUN
@example(lateness=1, trigger="early", epochs=[([], 20), (LATE_THEN_GROWN, 20)], page=60)
@given(
    lateness=st.sampled_from([0, 1, 7, 100]),
    trigger=st.sampled_from(sorted(TRIGGERS)),
    epochs=epochs_,
    page=st.sampled_from([60, 1 << 17]),
)
def test_windows_equal_a_plain_program(kind, closing, lateness, trigger, epochs, page):
    run = Epochs(job_of(kind, closing, lateness, trigger), parallelism=2, page_bytes=page)
    plain = Plain(kind, closing, lateness, trigger)
    for (rows, _), mark in zip([*epochs, ([], None)], [*marks_of(epochs), MAX_TIME], strict=True):
        made = run.run(rows, mark, terminal=mark == MAX_TIME)
        wanted, late = plain.epoch(rows, mark)
        names = ("k", "s", "e", "v") if closing == "process" else ("k", "at", "v")
        assert Counter(tuple(row[name] for name in names) for row in made["out"]) == wanted
        assert texts(made["late"]) == texts(late)
        assert made.event_due["w"] > mark
    assert made.event_due["w"] == NEVER
    assert run.is_empty


@RUN
@given(
    lateness=st.sampled_from([0, 1, 7, 100]),
    epochs=epochs_,
    parallelism=st.integers(1, 3),
    page=st.sampled_from([60, 1 << 17]),
)
def test_cumulative_aggregates_equal_a_plain_program(lateness, epochs, parallelism, page):
    """Kept as columns: when its time has passed, and once for the late rows of an epoch, with all of them."""
    run = Epochs(job_of("cumulative", "aggregate", lateness, "default"), parallelism=parallelism, page_bytes=page)
    plain = Plain("cumulative", "process", lateness, "default")
    for (rows, _), mark in zip([*epochs, ([], None)], [*marks_of(epochs), MAX_TIME], strict=True):
        made = run.run(rows, mark, terminal=mark == MAX_TIME)
        on_time, _ = plain.epoch([], mark)
        again, late = plain.epoch(rows, mark)
        last = {}
        for key, start, end, text in again:
            last[key, start, end] = max(text, last.get((key, start, end), ""), key=len)
        found = Counter(
            (row["k"], millis(row["window_start"]), millis(row["window_end"]), row["n"], row["least"], row["kinds"])
            for row in made["out"]
        )
        fired = [*on_time, *((*bounds, text) for bounds, text in last.items())]
        assert found == Counter((*bounds, len(text), min(text), len(set(text))) for *bounds, text in fired)
        assert texts(made["late"]) == texts(late)
        assert made.event_due["w"] > mark
        assert all(row["first"] is not None for row in made["out"])
    assert made.event_due["w"] == NEVER
    assert run.is_empty


def millis(moment):
    return round(moment.timestamp() * 1000)
