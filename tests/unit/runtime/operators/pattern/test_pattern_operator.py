"""Patterns in jobs: order of rows, epochs, parallelism, side outputs, state that shrinks, and patterns that are replaced."""

from collections import Counter
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pattern_runs import run, starts

import millstream as ms
from millstream.errors import InvalidStep
from millstream.graph.step import MAIN
from millstream.model.counts import StepCounts
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.plan.epoch import EpochTimes
from millstream.records.batch import TIME
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.layouts import layouts_of
from millstream.runtime.operators.pattern.operator import PatternOperator
from millstream.state.compat.layout_changes import layout_changes
from millstream.state.pages import NEVER
from millstream.testing import ADVANCE_CLOCK, run_job

RUN = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
begin = ms.pattern.begin
PATTERN = (
    begin("a").where(starts("a")).followed_by("b").where("price > a.price").one_or_more().next("c").where(starts("c"))
)


def words(output):
    return Counter((row["k"], row["words"]) for row in output["out"])


rows_ = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 3000)), max_size=14
)


@RUN
@given(
    rows=rows_, data=st.data(), pattern=st.sampled_from([PATTERN, PATTERN.skip_past_last_event(), PATTERN.within("2s")])
)
def test_matches_do_not_depend_on_epochs_parallelism_or_arrival_within_the_delay(rows, data, pattern):
    ordered, at = [], 0
    for place, (k, word, price, step) in enumerate(rows):
        at += step
        ordered.append({"k": k, "word": f"{word}{place:02}", "price": price, "at": at})
    expected = words(run(pattern, ordered, order_by="word"))
    shuffled = sorted(ordered, key=lambda row: row["at"] + data.draw(st.integers(0, 4000), label="delay"))
    size, tasks = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    cut = run(pattern, shuffled, order_by="word", max_delay="4s", rows_per_epoch=size, parallelism=tasks)
    assert words(cut) == expected
    assert all(counts.is_balanced for counts in cut.counts.values())


def test_rows_go_by_time_then_by_order_by_then_as_they_came():
    pattern = begin("a").next("b")
    rows = [{"k": "x", "word": word, "price": price, "at": 5} for word, price in (("p", 2), ("q", None), ("r", 1))]
    assert [row["words"] for row in run(pattern, rows)["out"]] == ["p q", "q r"]
    assert [row["words"] for row in run(pattern, rows, order_by="price")["out"]] == ["q r", "r p"]


def test_without_event_time_rows_are_matched_as_they_come():
    pattern = begin("a").where(starts("a")).next("b").where(starts("b"))
    rows = [{"k": "x", "word": word, "price": 0, "at": at} for word, at in (("a1", 9), ("b1", 3), ("a2", 1), ("b2", 7))]
    made = run(pattern, rows, timed=False, rows_per_epoch=1)
    assert [row["words"] for row in made["out"]] == ["a1 b1", "a2 b2"]


def test_without_event_time_the_clock_ends_partial_matches():
    job = ms.Job("clock")
    rows = job.source("in", ms.memory([]), schema="k string, word string")
    pattern = begin("a").where(starts("a")).followed_by("b").where(starts("b")).within("10s")
    made = rows.key_by("k").pattern(pattern).measures(b="b.word", timed_out={"a": "a.word"}, id="p")
    made.sink("out", ms.collect("out"))
    made.side_output("timed_out").sink("late", ms.collect("late"))
    script = [{"k": "x", "word": "a1"}, ADVANCE_CLOCK("9s"), {"k": "x", "word": "b1"}]
    script += [{"k": "x", "word": "a2"}, ADVANCE_CLOCK("10s"), {"k": "x", "word": "b2"}]
    output = run_job(job, {"in": script})
    assert output["out"] == [{"k": "x", "b": "b1"}]
    assert output["late"] == [{"k": "x", "a": "a2"}]


def test_functions_give_one_row_many_or_none():
    job = ms.Job("shapes")
    rows = job.source("in", ms.memory([]), schema="k string, n long").key_by("k")
    found = rows.pattern(begin("a").where("n > 0"))
    found.process(lambda match: [match["a"][0]] * match["a"][0]["n"], schema="k string, n long", id="p").sink(
        "many", ms.collect("m")
    )
    found.process(lambda match: None, schema="n long", id="q").sink("none", ms.collect("n"))
    output = run_job(job, {"in": [{"k": "x", "n": 2}, {"k": "x", "n": 0}, {"k": "y", "n": 1}]})
    assert Counter(row["k"] for row in output["many"]) == {"x": 2, "y": 1}
    assert output["none"] == []


class Store(dict):
    """Pages in memory."""

    def put(self, key, value):
        self[key] = value

    def delete(self, key):
        self.pop(key, None)


class Direct:
    """An operator with its store, epoch by epoch."""

    def __init__(self, pattern):
        job = ms.Job("direct", max_parallelism=4)
        rows = job.source("in", ms.memory([]), schema="k string, word string, price long, at long").event_time("at")
        made = rows.key_by("k").pattern(pattern).process(self.named, schema="k string, found string", id="p")
        made.sink("out", ms.collect("out"))
        self.node = job.compile().stream.node("p")
        self.operator = PatternOperator(self.node, key_groups=4, page_bytes=1 << 16)
        self.store, self.mark = Store(), MIN_TIME

    @staticmethod
    def named(match, info):
        return {
            "k": info.key["k"],
            "found": f"{info.pattern}: " + " ".join(r["word"] for rows in match.values() for r in rows),
        }

    def run(self, rows=(), watermark=None):
        before, self.mark = self.mark, self.mark if watermark is None else watermark
        table = pa.table({
            "k": ["x"] * len(rows), "word": [word for word, _ in rows], "price": [0] * len(rows),
            "at": [at for _, at in rows], TIME: [at for _, at in rows],
        }) if rows else None  # fmt: skip
        found = []
        ledger = Ledger(lambda step: StepCounts(), 0)
        times = EpochTimes(0, before, self.mark, self.mark == MAX_TIME)
        emit = lambda name, batch, phase: found.extend(batch.rows.to_pylist() if name == MAIN else [])  # noqa: E731
        self.due = self.operator.run(EpochWork(times, [], [] if table is None else [table], self.store, emit, ledger))
        return [row["found"] for row in found]


AB = begin("a").where(starts("a")).followed_by("b").where(starts("b"))


def test_state_shrinks_to_nothing():
    direct = Direct(AB.within("10s"))
    assert direct.run([("a1", 1000), ("a2", 2000)]) == []
    assert direct.due.event == 1000
    assert direct.run(watermark=2000) == []
    assert direct.due.event == 11_000
    assert direct.run([("b", 3000)], 2500) == []
    assert direct.run(watermark=3000) == ["pattern: a1 b", "pattern: a2 b"]
    assert direct.due.event == NEVER
    assert not direct.store


def layouts():
    job = ms.Job("kept", max_parallelism=4)
    rows = job.source("in", ms.memory([]), schema="k string, word string, at long").event_time("at")
    rows.key_by("k").pattern(AB).measures(b="b.word", id="p").sink("out", ms.collect("out"))
    return layouts_of(job.compile().deployment)


def test_partial_matches_are_entries_and_rows_that_wait_are_columns():
    kept = layouts()
    assert {uid: layout.form for uid, layout in kept.items()} == {
        "p": "entries", "p:waiting": "columns", "p:waiting-index": "columns",
    }  # fmt: skip
    assert [slot.name for slot in kept["p"].slots] == ["partial"]
    assert kept["p:waiting"].column_schema.names == ["k", "word", "at"]


def test_state_whose_rows_wait_in_entries_is_not_lost_silently():
    now = layouts()["p"]
    waiting = msgspec.structs.replace(now.slots[0], name="waiting", kind="rows")
    before = msgspec.structs.replace(now, slots=[waiting, *now.slots])
    changes = layout_changes(before, now, ())
    assert [(change.field, change.verdict) for change in changes] == [("waiting", "dropped")]


def test_rows_of_one_instant_are_ordered_by_plain_columns():
    job = ms.Job("order")
    rows = job.source("in", ms.memory([]), schema="k string, tags array<string>, at long").event_time("at")
    with pytest.raises(InvalidStep) as caught:
        rows.key_by("k").pattern(begin("a"), order_by="tags").measures(t="a.at", id="p")
    assert caught.value.code == "STEP-180"


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("double", [2.5, None, 1.0], [1, 2, 0]),
        ("string", ["b", None, "a"], [1, 2, 0]),
        ("boolean", [True, None, False], [1, 2, 0]),
        ("decimal(9,2)", [Decimal("2.5"), None, Decimal("1.25")], [1, 2, 0]),
    ],
)
def test_any_plain_type_orders_rows_of_one_instant_with_nulls_first(kind, values, expected):
    job = ms.Job("order")
    rows = job.source("in", ms.memory([]), schema=f"k string, n int, v {kind}, at long").event_time("at")
    found = rows.key_by("k").pattern(begin("a").next("b").next("c"), order_by="v")
    found.measures(a="a.n", b="b.n", c="c.n", id="p").sink("out", ms.collect("out"))
    output = run_job(job, {"in": [{"k": "x", "n": n, "v": value, "at": 1} for n, value in enumerate(values)]})
    assert [list(row.values())[1:] for row in output["out"]] == [expected]
