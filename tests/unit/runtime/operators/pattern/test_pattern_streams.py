"""Patterns over streams without keys, the order of rows of one instant, and the clock in conditions."""

import json
import warnings
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pattern_runs import run

import millstream as ms
from millstream.errors import MillstreamError
from millstream.testing import ADVANCE_CLOCK, WATERMARK, run_job

RUN = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
begin = ms.pattern.begin
SCHEMA = "k string, n long, at long"
UP = begin("a").followed_by("b").where("n > a.n").within("10s")


def rows_of(numbers):
    return [{"k": "xyz"[place % 3], "n": n, "at": place * 1000} for place, n in enumerate(numbers)]


def unkeyed(*, timed=True, **options):
    job = ms.Job("unkeyed", max_parallelism=8)
    rows = job.source("in", ms.memory([]), schema=SCHEMA)
    rows = rows.event_time("at", max_delay="1m") if timed else rows
    found = rows.pattern(UP, **options).measures(low="a.n", high="b.n", timed_out={"low": "a.n"}, id="p")
    found.sink("out", ms.collect("out"))
    found.side_output("timed_out").sink("gone", ms.collect("gone"))
    return job


def pairs(output):
    return Counter((row["low"], row["high"]) for row in output["out"])


@RUN
@given(numbers=st.lists(st.integers(0, 5), max_size=12), size=st.integers(1, 5), tasks=st.integers(1, 3))
def test_a_stream_without_keys_is_searched_as_one(numbers, size, tasks):
    later = [(n, next((m for m in numbers[place + 1 : place + 10] if m > n), None)) for place, n in enumerate(numbers)]
    output = run_job(unkeyed(), {"in": rows_of(numbers)}, rows_per_epoch=size, parallelism=tasks)
    assert pairs(output) == Counter(pair for pair in later if pair[1] is not None)
    assert Counter(row["low"] for row in output["gone"]) == Counter(low for low, high in later if high is None)
    assert all(counts.is_balanced for counts in output.counts.values())


def test_the_plan_says_that_one_subtask_takes_all_rows():
    job = unkeyed()
    assert "single (all rows in one subtask)" in job.explain()
    again = ms.Job.from_json(json.loads(json.dumps(job.to_json())))
    assert again.compile().partitioned.fingerprint == job.compile().partitioned.fingerprint


def test_a_match_of_a_stream_without_keys_has_an_empty_key():
    job = ms.Job("unkeyed")
    rows = job.source("in", ms.memory([]), schema=SCHEMA)
    found = rows.pattern(begin("a").next("b"))
    found.process(lambda match, info: {"n": len(info.key)}, schema="n long", id="p").sink("out", ms.collect("out"))
    found.measures(one="1", id="q").sink("ones", ms.collect("ones"))
    output = run_job(job, {"in": rows_of([1, 2, 3])}, rows_per_epoch=1)
    assert (output["out"], output["ones"]) == ([{"n": 0}] * 2, [{"one": 1}] * 2)


def test_rules_are_looked_for_in_a_stream_without_keys():
    job = ms.Job("unkeyed")
    both = job.source("in", ms.memory([]), schema="rule string, pattern string, n long")
    rules = both.filter("rule is not null").select("rule", "pattern")
    numbers = both.filter("n is not null").select("n")
    numbers.patterns(rules.broadcast(), id="p").sink("out", ms.collect("out"))
    up = {"pattern": [{"begin": "a"}, {"next": "b", "where": "n > a.n"}], "measures": {"n": "b.n"}}
    later = ADVANCE_CLOCK("1s")
    script = [{"rule": "up", "pattern": json.dumps(up)}, later, {"n": 1}, {"n": 2}, later, {"n": 3}]
    output = run_job(job, {"in": script}, parallelism=3)
    assert [json.loads(row["match"])["n"] for row in output["out"]] == [2, 3]


def test_rebalance_before_a_pattern_without_keys_is_refused():
    job = ms.Job("unkeyed")
    with pytest.raises(MillstreamError) as caught:
        job.source("in", ms.memory([]), schema=SCHEMA).rebalance().pattern(UP)
    assert caught.value.code == "STEP-069"


FILE = """
job: file
steps:
  - source: in
    from: {{memory: {{rows: []}}}}
    schema: k string, n long, at long
  - event_time: at
  - pattern: {stages}
    {options}
    id: p
  - sink: out
    to: {{collect: {{name: out}}}}
"""


def from_file(stages, options, rows):
    return run_job(ms.load_job(FILE.format(stages=stages, options=options)), {"in": rows})["out"]


def test_a_pattern_of_a_job_file_needs_no_key():
    made = from_file("[{begin: a}, {next: b, where: n > a.n}]", "measures: {n: b.n}", rows_of([1, 2, 1, 5]))
    assert [row["n"] for row in made] == [2, 5]


SAME = [
    {"k": "x", "word": word, "price": price, "at": 5} for word, price in (("p", 2), ("q", None), ("r", 1), ("s", 2))
]
THREE = begin("a").next("b").next("c").next("d")


@pytest.mark.parametrize(
    ("order_by", "words"),
    [
        ("price", "q r p s"),
        ("price desc", "p s r q"),
        ("price DESC, word desc", "s p r q"),
        (["price desc", "word desc"], "s p r q"),
        (("price asc", "word desc"), "q r s p"),
    ],
)
@pytest.mark.parametrize("timed", [True, False])
def test_rows_of_one_instant_are_ordered_up_or_down(order_by, words, timed):
    """Without event time all rows of an epoch are of one instant, that of its clock."""
    assert [row["words"] for row in run(THREE, SAME, order_by=order_by, timed=timed)["out"]] == [words]


def test_a_job_file_orders_down_too():
    options = "key_by: k\n    order_by: n desc\n    measures: {n: b.n}"
    made = from_file("[{begin: a}, {next: b}]", options, [{"k": "x", "n": n, "at": 1} for n in (1, 3, 2)])
    assert [row["n"] for row in made] == [2, 1]


@pytest.mark.parametrize("order_by", ["price sideways", "price desc word"])
def test_what_is_no_order_is_refused(order_by):
    with pytest.raises(MillstreamError) as caught:
        run(THREE, [], order_by=order_by)
    assert caught.value.code == "STEP-086"


@pytest.mark.parametrize(("order_by", "expected"), [("v", [3, 2, 0, 4, 1]), ("v desc", [1, 4, 0, 2, 3])])
def test_doubles_are_ordered_with_nan_above_all_and_without_a_warning(order_by, expected):
    job = ms.Job("order")
    rows = job.source("in", ms.memory([]), schema="k string, n int, v double, at long").event_time("at")
    found = rows.key_by("k").pattern(begin("a").next("b").next("c").next("d").next("e"), order_by=order_by)
    found.measures(a="a.n", b="b.n", c="c.n", d="d.n", e="e.n", id="p").sink("out", ms.collect("out"))
    values = [2.5, float("nan"), -1.0, None, float("inf")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        output = run_job(job, {"in": [{"k": "x", "n": n, "v": value, "at": 1} for n, value in enumerate(values)]})
    assert [list(row.values())[1:] for row in output["out"]] == [expected]


def clocked(condition):
    job = ms.Job("clock")
    rows = job.source("in", ms.memory([]), schema="k string, n long, at long")
    found = rows.key_by("k").pattern(begin("a").next("b").where(condition))
    found.measures(n="b.n", id="p").sink("out", ms.collect("out"))
    return job


@pytest.mark.parametrize(
    "condition",
    [
        "processing_time() - at < 5000",
        "a.n > 0 and processing_time() - at < 5000",
        "PROCESSING_TIME() < at + 5000 * a.n",
        lambda row, context: context.processing_time - row["at"] < 5000,
    ],
)
def test_conditions_may_ask_for_the_clock(condition):
    """A row of the epoch's clock is fresh; one with an older time is not."""
    script = [ADVANCE_CLOCK("1m"), {"k": "x", "n": 1, "at": 0}, {"k": "x", "n": 1, "at": 59_000}]
    script += [ADVANCE_CLOCK("1m"), {"k": "x", "n": 2, "at": 119_999}, {"k": "x", "n": 3, "at": 60_000}]
    output = run_job(clocked(condition), {"in": script})
    assert [row["n"] for row in output["out"]] == [1, 2]


def test_measures_have_no_clock():
    job = ms.Job("clock")
    rows = job.source("in", ms.memory([]), schema=SCHEMA).key_by("k")
    with pytest.raises(MillstreamError):
        rows.pattern(begin("a")).measures(now="processing_time()", id="p")


def test_a_row_at_the_watermark_of_a_script_is_late():
    """`WATERMARK(at)` says that the stream is complete through `at`."""
    job = ms.Job("late")
    rows = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at")
    found = rows.key_by("k").pattern(begin("a")).measures(n="a.n", id="p")
    found.sink("out", ms.collect("out"))
    found.side_output("late").sink("late", ms.collect("late"))
    script = [{"k": "x", "n": 1, "at": 1000}, WATERMARK(1000), {"k": "x", "n": 2, "at": 1000}]
    output = run_job(job, {"in": [*script, {"k": "x", "n": 3, "at": 1001}]})
    assert ([row["n"] for row in output["out"]], [row["n"] for row in output["late"]]) == ([1, 3], [2])
