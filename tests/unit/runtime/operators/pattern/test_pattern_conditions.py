"""Conditions: expressions over a row, expressions over earlier rows, Python functions, and how they are joined."""

import datetime as dt
from decimal import Decimal

import pytest
from pattern_runs import match, matches, starts

import millstream as ms
from millstream.errors import MillstreamError, StepFailed
from millstream.graph.patterns.match_source import check_conditions
from millstream.model.schema import schema_of
from millstream.testing import run_job

begin = ms.pattern.begin
ANY = begin("a").followed_by("b")
TYPES = schema_of("word string, n long, x double, d decimal(10,2), t timestamp, at long")
T0 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def found(condition, *rows):
    """Whether the last row is taken into stage `b` behind the rows before it, all in stage `a`."""
    made = begin("a").times(len(rows) - 1).consecutive() if len(rows) > 2 else begin("a")
    values = [(f"w{place}", *row, place) for place, row in enumerate(rows)]
    got = match(made.next("b").where(condition), values, schema=TYPES)[0]
    return bool(got)


def row(n=None, x=None, d=None, t=None):
    return n, x, d, t


@pytest.mark.parametrize(
    ("condition", "rows", "holds"),
    [
        ("n > a.n", [row(1), row(2)], True),
        ("n > a.n", [row(2), row(2)], False),
        ("n > a.n", [row(None), row(2)], False),
        ("not (n > a.n)", [row(None), row(2)], False),
        ("a.n is null and n = 2", [row(None), row(2)], True),
        ("n > a.n or a.n is null", [row(None), row(2)], True),
        ("n = first(a.n) and n = last(a.n, 2)", [row(1), row(2), row(3), row(1)], True),
        ("n = last(a.n, 1)", [row(1), row(2), row(3), row(2)], True),
        ("last(a.n, 3) is null", [row(1), row(2), row(3), row(2)], True),
        ("n = first(a.n, 1)", [row(1), row(2), row(3), row(2)], True),
        ("count(a) = 2 and count(a.n) = 1", [row(1), row(None), row(0)], True),
        ("sum(a.n) + n = 6 and avg(a.n) = 1.5D", [row(1), row(2), row(3)], True),
        ("min(a.n) = 1 and max(a.n) = 5", [row(5), row(1), row(3)], True),
        ("n between first(a.n) and last(a.n)", [row(1), row(5), row(3)], True),
        ("n not in (1, 2) and n > a.n", [row(1), row(2)], False),
        ("abs(n - a.n) < 3", [row(5), row(3)], True),
        ("coalesce(a.n, 7) = n", [row(None), row(7)], True),
        ("x / a.x > 1.5D", [row(x=2.0), row(x=4.0)], True),
        ("d * 2 = a.d", [row(d=Decimal("2.50")), row(d=Decimal("1.25"))], True),
        ("x > a.d", [row(d=Decimal("2.50")), row(x=2.6)], True),
        ("avg(a.d) = d", [row(d=Decimal("1.00")), row(d=Decimal("2.00")), row(d=Decimal("1.50"))], True),
        ("t > a.t", [row(t=T0), row(t=T0 + dt.timedelta(seconds=1))], True),
        ("upper(word) > a.word", [row(1), row(2)], False),
        ("-n < a.n", [row(1), row(2)], True),
    ],
)
def test_conditions_over_earlier_rows(condition, rows, holds):
    assert found(condition, *rows) is holds


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("nothing > 1", "EXPR-005"),
        ("n + a.n", "EXPR-010"),
        ("avg(z.n) > 1", "STEP-109"),
        ("avg(a.nothing) > 1", "STEP-109"),
        ("count(z) > 1", "STEP-109"),
        ("count(n) > 1", "STEP-109"),
        ("sum(a.word) > 1", "STEP-013"),
        ("last(a.n, -1) > 1", "STEP-109"),
        ("avg(a.n, 1) > 1", "STEP-109"),
        ("upper(a.word) = 'A'", "STEP-111"),
        ("d / a.d > 1", "STEP-111"),
        ("avg(n) > 1", "EXPR-004"),
    ],
)
def test_conditions_that_are_refused(condition, code):
    with pytest.raises(MillstreamError) as caught:
        check_conditions(ANY.where(condition).spec, TYPES, step="p")
    assert caught.value.code == code
    assert caught.value.hint


def test_the_row_under_test_counts_in_its_own_stage():
    pattern = begin("a").where("avg(a.price) < 10").one_or_more().greedy().consecutive().next("b")
    assert matches(pattern.skip_past_last_event(), "x9 x10 x12 x1 x50") == ["x9 x10 x12", "x1 x50"]
    rising = begin("a").where("price > coalesce(last(a.price, 1), 0)").times(3).consecutive()
    assert matches(rising, "x1 x2 x3 x3 x4") == ["x1 x2 x3"]


def higher(row, context):
    earlier = context.events("a")
    return not earlier or row["price"] > earlier[-1]["price"]


def test_python_conditions_see_the_match_so_far():
    assert matches(begin("a").where(higher).times(3).consecutive(), "x1 x2 x3 x3 x4") == ["x1 x2 x3"]
    assert matches(begin("a").where(lambda row: row["price"] > 2), "x1 x2 x3") == ["x3"]


def test_a_python_condition_that_fails_names_the_step_and_the_row():
    with pytest.raises(StepFailed, match=r"KeyError.*word"):
        matches(begin("a").where(lambda row: row["missing"]), "x1")
    with pytest.raises(MillstreamError) as caught:
        matches(begin("a").where(lambda row, context: context.events("z")), "x1")
    assert "unknown stage 'z'" in str(caught.value)


def test_conditions_are_joined_from_left_to_right():
    either = begin("a").where(starts("x")).or_where(starts("y")).where("price > 1")
    assert matches(either, "x1 x2 y1 y3 z4") == ["x2", "y3"]
    mixed = begin("a").where(starts("x")).or_where(lambda row: row["price"] == 9).where("price > 1")
    assert matches(mixed, "x1 x2 y9 z4") == ["x2", "y9"]
    earlier = ANY.where(starts("x")).or_where("price = a.price + 1").or_where(lambda row: row["price"] == 9)
    assert matches(earlier, "y1 y3 y2 q q") == ["y1 y2"]


def test_a_stage_without_condition_takes_any_row():
    assert matches(begin("a").next("b"), "x y z") == ["x y", "y z"]


def pairs(pattern, *rows):
    """How many pairs a pattern finds in rows (n, at)."""
    job = ms.Job("pairs")
    keyed = job.source("in", ms.memory([]), schema="k string, n long, at long").event_time("at").key_by("k")
    keyed.pattern(pattern).measures(x="b.n").sink("o", ms.collect("o"))
    return len(run_job(job, {"in": [{"k": "a", "n": n, "at": at} for n, at in rows]})["o"])


@pytest.mark.parametrize("kind", ["first_to_last", "previous_to_current"])
@pytest.mark.parametrize(("at", "count"), [(9, 1), (10, 0), (11, 0)])
def test_a_row_exactly_the_time_of_within_later_is_too_late(kind, at, count):
    pattern = ms.pattern.begin("a").where("n = 1").followed_by("b").where("n = 2").within("10ms", kind)
    assert pairs(pattern, (1, 0), (2, at)) == count


def test_a_second_parameter_is_the_context_and_a_keyword_is_not():
    seen = []
    begun = ms.pattern.begin("a").where(lambda row, given=7: seen.append(given) or row["n"] == 1)
    pattern = begun.followed_by("b").where(lambda row, *, limit=2: row["n"] == limit)
    assert pairs(pattern, (1, 0), (2, 1)) == 1
    assert all(hasattr(given, "events") for given in seen)
