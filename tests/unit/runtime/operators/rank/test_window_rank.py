"""The best rows of each window, against a plain program that looks at all rows of a window when it has passed."""

from collections import Counter
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.runtime.epochs import Epochs
from tests.unit.runtime.operators.window.test_row_window_oracle import Plain, marks_of

import millstream as ms
from millstream.errors import InvalidStep
from millstream.model.time import MAX_TIME
from millstream.runtime.operators.rank import windows as window_rank
from millstream.state.pages import NEVER
from millstream.testing import run_job

RUN = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
WINDOWS = {
    "tumbling": ms.tumbling(0.01, offset=-0.003),
    "sliding": ms.sliding(0.009, 0.003),
    "cumulative": ms.cumulative(0.012, 0.004, offset=0.001),
}


def job_of(kind, lateness, **how):
    job = ms.Job("ranks", max_parallelism=8)
    keyed = job.source("in", ms.memory([]), schema="k string, at long, v long, n long").event_time("at").key_by("k")
    windows = keyed.window(WINDOWS[kind], allowed_lateness=lateness / 1000)
    made = windows.top_n(**how, id="w") if "n" in how else windows.deduplicate(**how, id="w")
    made.sink("out", ms.collect("x"))
    made.late.sink("late", ms.collect("y"))
    return job


class Best(Plain):
    """What each window holds when it fires; the last firing of a window among late rows is what counts."""

    def __init__(self, kind, lateness):
        super().__init__(kind, "process", lateness, "default")

    def fire(self, window):
        self.fired[window.key, window.start, window.end] = list(window.rows)


def value(row):
    return -99 if row["v"] is None else row["v"]


def two(rows):
    order = sorted(rows, key=lambda row: -value(row))
    return [(row["n"], rank) for rank, row in enumerate(order[:2], 1)]


def tied(rows):
    ranked = [(row["n"], 1 + sum(value(other) > value(row) for other in rows)) for row in rows]
    return [(n, rank) for n, rank in ranked if rank <= 2]


def last_of(rows):
    most = max(map(value, rows))
    return [([row for row in rows if value(row) == most][-1]["n"], None)]


WAYS = {
    "two": ({"n": 2, "by": "v desc"}, two),
    "ties": ({"n": 2, "by": "v desc", "ties": True}, tied),
    "first": ({}, lambda rows: [(rows[0]["n"], None)]),
    "last": ({"keep": "last"}, lambda rows: [(rows[-1]["n"], None)]),
    "last by": ({"keep": "last", "by": "v"}, last_of),
}
rows_ = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(-20, 40), st.sampled_from([None, 1, 2, 3])), max_size=8
)
epochs_ = st.lists(st.tuples(rows_, st.one_of(st.none(), st.integers(0, 20))), max_size=6)


@pytest.mark.parametrize("kind", sorted(WINDOWS))
@RUN
@given(
    way=st.sampled_from(sorted(WAYS)),
    lateness=st.sampled_from([0, 1, 7, 100]),
    epochs=epochs_,
    parallelism=st.integers(1, 3),
    share=st.sampled_from([1, 4, 1 << 20]),
)
def test_the_best_rows_equal_a_plain_program(kind, way, lateness, epochs, parallelism, share):
    how, best = WAYS[way]
    with mock.patch.object(window_rank, "_SHARE", share):
        equal_to_a_plain_program(kind, how, best, lateness, epochs, parallelism)


def equal_to_a_plain_program(kind, how, best, lateness, epochs, parallelism):
    run, plain, number = Epochs(job_of(kind, lateness, **how), parallelism=parallelism), Best(kind, lateness), 0
    for (came, _), mark in zip([*epochs, ([], None)], [*marks_of(epochs), MAX_TIME], strict=True):
        rows = [{"k": k, "at": at, "v": v, "n": number + place} for place, (k, at, v) in enumerate(came)]
        number += len(rows)
        made = run.run(rows, mark, terminal=mark == MAX_TIME)
        fired = [plain.epoch([], mark)[0]]
        again, late = plain.epoch(rows, mark)
        wanted = Counter(
            (*window, *each) for windows in (*fired, again) for window, held in windows.items() for each in best(held)
        )
        assert Counter(map(shown, made["out"])) == wanted
        assert sorted(row["n"] for row in made["late"]) == [row["n"] for row in late]
        assert made.event_due["w"] > mark
        assert not rows or made.counts["w"].is_balanced
    assert made.event_due["w"] == NEVER
    assert run.is_empty


def shown(row):
    start, end = (round(row[name].timestamp() * 1000) for name in ("window_start", "window_end"))
    return row["k"], start, end, row["n"], row.get("rank_number")


@pytest.mark.parametrize("window", [ms.session("1s"), ms.tumbling("1s", time="processing"), ms.count_window(3)])
def test_only_fixed_windows_of_event_time_are_ranked(window):
    job = ms.Job("ranks")
    keyed = job.source("in", ms.memory([]), schema="k string, at long").event_time("at").key_by("k")
    with pytest.raises(InvalidStep) as caught:
        keyed.window(window).top_n(2, by="at")
    assert caught.value.code == "STEP-242"
    assert caught.value.found == window.describe()


def test_what_a_ranking_of_a_window_refuses():
    job = ms.Job("ranks")
    plain = job.source("in", ms.memory([]), schema="k string, at long, window_end long")
    keyed = plain.event_time("at").key_by("k")
    for built, code in (
        (lambda: keyed.window(ms.tumbling("1s")).top_n(2, by="at"), "STEP-243"),
        (lambda: keyed.window(ms.tumbling("1s"), trigger=ms.trigger.count(2)).deduplicate(), "STEP-123"),
        (lambda: keyed.window(ms.tumbling("1s")).top_n(0, by="at"), "STEP-085"),
        (lambda: keyed.window(ms.tumbling("1s")).deduplicate(keep="best"), "STEP-070"),
        (lambda: plain.select("k", "at").key_by("k").window(ms.tumbling("1s")).deduplicate(), "STEP-040"),
    ):
        with pytest.raises(InvalidStep) as caught:
            built()
        assert caught.value.code == code


def test_a_ranking_of_windows_survives_its_json_form_and_is_described():
    job = job_of("cumulative", 5, n=2, by="v desc", ties=True)
    assert ms.Job.from_json(job.to_json()).to_json() == job.to_json()
    text = job.explain("stream")
    assert "first 2 by v desc, with ties; when the window has passed" in text
    assert "cumulative(12ms, every 4ms, offset 1ms), allowed lateness 5ms" in text


def test_results_of_ranked_windows_have_the_last_instant_of_their_window_as_event_time():
    job = ms.Job("ranks")
    keyed = job.source("in", ms.memory([]), schema="k string, at long, v long").event_time("at").key_by("k")
    best = keyed.window(ms.tumbling("1s")).top_n(1, by="v desc", id="best")
    counted = best.key_by("k").window(ms.tumbling("2s")).aggregate(total=ms.sum("v"), id="counted")
    counted.sink("out", ms.collect("out"))
    rows = [{"k": "a", "at": at, "v": v} for at, v in ((0, 1), (500, 2), (1500, 4), (1999, 3), (2000, 8))]
    assert [row["total"] for row in run_job(job, {"in": rows}, rows_per_epoch=1)["out"]] == [6, 8]
