"""The source that is made for a pattern does what the general automaton does, and each goes on from what the other saved."""

import dataclasses
import itertools
from decimal import Decimal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pattern_runs import examined, starts

import millstream as ms
from millstream.errors import StepFailed
from millstream.graph.patterns.pattern import PatternSpec
from millstream.graph.patterns.stage import Clause, Condition, Stage
from millstream.model.schema import schema_of
from millstream.model.time import MAX_TIME
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.linear import is_linear
from millstream.runtime.operators.pattern.matching import GeneralMatcher, LinearMatcher, key_matcher
from millstream.state.pages import NEVER

RUN = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
ROWS = schema_of("word string, price long, cost decimal(9,2), at long not null")
begin = ms.pattern.begin
CONDITIONS = (
    "word in ('a', 'b')",
    "word <> 'c' and price > 1",
    "price < coalesce(last({own}.price, 1), {first}.price)",
    "price > {first}.price - 1",
    "price >= last({own}.price, 2) or last({own}.price, 2) is null",
    "avg({own}.price) < 2",
    "sum({own}.price) between 1 and 4",
    "count({own}) < 3",
    "max({own}.cost) > min({first}.cost)",
    "avg({own}.cost) * 2.0 > 3.0",
    "sum({own}.cost) <= 6.00",
    "first({own}.price) = price",
    "first({first}.price, 1) is null or not (first({own}.price, 1) > 1)",
    "abs(price - {first}.price) <> 1",
    "length(word) + price > {first}.price",
)


@st.composite
def linear_patterns(draw):
    stages = []
    for place in range(draw(st.integers(1, 4))):
        least, most = draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (1, None), (2, 3), (1, 2)]))
        is_greedy = least != most
        texts = draw(st.lists(st.sampled_from(CONDITIONS), max_size=2, unique=True))
        where = tuple(Clause(condition=Condition(text=text.format(own=f"s{place}", first="s0"))) for text in texts)
        stages.append(
            Stage(
                name=f"s{place}",
                contiguity="strict" if not place or is_greedy else draw(st.sampled_from(["strict", "relaxed"])),
                where=where,
                least=least,
                most=most,
                greedy=is_greedy,
                inner="strict" if is_greedy else draw(st.sampled_from(["strict", "relaxed"])),
                optional=bool(place) and is_greedy and draw(st.booleans()),
            )
        )
    skip = draw(st.sampled_from(["no_skip", "to_next", "past_last", "to_first", "to_last"]))
    to = (
        draw(st.sampled_from([stage.name for stage in stages]))
        if skip.startswith("to_") and skip != "to_next"
        else None
    )
    return PatternSpec(stages=tuple(stages), within=draw(st.sampled_from([None, 3, 8])), skip=skip, skip_to=to)


_price = st.one_of(st.none(), st.integers(0, 3))
_cost = st.one_of(st.none(), st.integers(0, 6).map(lambda cents: Decimal(cents) / 2))
rows_ = st.lists(st.tuples(st.sampled_from("abc"), _price, _cost, st.integers(0, 2)), max_size=12)


def pieces(pattern, rows, cuts, until, choose):
    """Every match and every expiry, with the rows given in pieces to the matchers that `choose` names one after the other."""
    program = Program(pattern, ROWS, step="p")
    kinds = {
        "general": GeneralMatcher(program, keeps_expired=True),
        "linear": LinearMatcher(program, ROWS, step="p", keeps_expired=True),
    }
    bits, cells = examined(program, rows, ROWS)
    events = [(n, row[3], row, *known) for n, (row, *known) in enumerate(zip(rows, bits, cells, strict=True))]
    bounds = [0, *sorted(cuts), len(rows)]
    found, expired, deadlines, saved = [], [], [], None
    for place, (start, end) in enumerate(itertools.pairwise(bounds)):
        matcher = kinds[choose(place)]
        is_last = place == len(bounds) - 2
        reached = until if is_last else events[end - 1][1] if end else 0
        made = matcher.match(saved, [(n - start, *rest) for n, *rest in events[start:end]], reached)
        found += [(matcher.rows(tail), time) for tail, time in made.found]
        expired += [(matcher.rows(tail), time) for tail, time in made.expired]
        deadlines.append(made.deadline)
        saved = None if made.saved is None else msgspec.msgpack.decode(msgspec.msgpack.encode(made.saved))
        saved = None if saved is None else [[(n, at, restored(row)) for n, at, row in saved[0]], *saved[1:]]
    return found, expired, deadlines, saved is None


def restored(row):
    word, price, cost, at = row
    return word, price, None if cost is None else Decimal(cost), at


FALLS = (
    begin("s0")
    .next("s1")
    .where("price < coalesce(last(s1.price, 1), s0.price)")
    .one_or_more()
    .greedy()
    .consecutive()
    .next("s2")
    .where("price > last(s1.price, 1)")
)
FIXED = (
    FALLS.skip_to_last("s2"),
    FALLS.skip_past_last_event(),
    begin("a").where("price > last(a.price, 2) or last(a.price, 2) is null").one_or_more().greedy().consecutive()
    .next("b"),
    begin("a").where("price >= first(a.price, 1) or first(a.price, 1) is null").times(2, 4).greedy().consecutive()
    .next("b"),
    begin("a").where("avg(a.price) < 4").one_or_more().greedy().consecutive().next("b").skip_to_next(),
    begin("a").next("b").where("price > a.price - 2").one_or_more().optional().greedy().consecutive().next("c")
    .where("price < a.price - 2").within(7).skip_past_last_event(),
)  # fmt: skip
walks_ = st.lists(st.integers(0, 9), min_size=6, max_size=30)


@RUN
@given(pattern=st.sampled_from(FIXED), prices=walks_, cuts=st.sets(st.integers(0, 30)))
def test_both_ways_agree_on_long_runs(pattern, prices, cuts):
    rows = [("a", price, Decimal(price), place) for place, price in enumerate(prices)]
    cuts = {cut for cut in cuts if cut <= len(rows)}
    expected = pieces(pattern.spec, rows, cuts, 40, lambda _: "general")
    assert pieces(pattern.spec, rows, cuts, 40, lambda place: ("linear", "general")[place % 2]) == expected
    assert pieces(pattern.spec, rows, (), 40, lambda _: "linear")[:2] == expected[:2]


@RUN
@given(
    pattern=linear_patterns(), rows=rows_, cuts=st.sets(st.integers(0, 12)), until=st.sampled_from([0, 30, MAX_TIME])
)
def test_both_ways_give_the_same_matches_at_the_same_times(pattern, rows, cuts, until):
    assert is_linear(Program(pattern, ROWS, step="p"))
    at, timed = 0, []
    for word, price, cost, step in rows:
        at += step
        timed.append((word, price, cost, at))
    cuts = {cut for cut in cuts if cut <= len(rows)}
    until = max(until, at)
    expected = pieces(pattern, timed, cuts, until, lambda _: "general")
    assert pieces(pattern, timed, cuts, until, lambda _: "linear") == expected
    assert pieces(pattern, timed, cuts, until, lambda place: ("general", "linear")[place % 2]) == expected


@pytest.mark.parametrize(
    ("pattern", "is_one"),
    [
        (begin("a").next("b").times(2).next("c"), True),
        (begin("a").followed_by("b").where("price > a.price"), True),
        (begin("a").next("b").one_or_more().greedy().consecutive().optional().next("c"), True),
        (begin("a").next("b").times(1, 15).greedy().consecutive(), True),
        (begin("a").next("b").one_or_more(), True),
        (begin("a").one_or_more().greedy().next("b"), False),
        (begin("a").one_or_more().next("b"), False),
        (begin("a").followed_by_any("b"), False),
        (begin("a").not_next("b").next("c"), False),
        (begin("a").not_followed_by("b").followed_by("c"), False),
        (begin("a").next("b").within("1s", "previous_to_current"), False),
        (begin("a").one_or_more().until(starts("c")).greedy(), False),
        (begin("a").where(lambda row: True).next("b"), False),
        (begin("a").where("word = 'a'").next("b").where("price > a.price").or_where("word = 'b'"), False),
    ],
)
def test_which_patterns_are_linear(pattern, is_one):
    program = Program(pattern.spec, ROWS, step="p")
    assert is_linear(program) == is_one
    made = key_matcher(program, ROWS, step="p", keeps_expired=False)
    assert isinstance(made, LinearMatcher if is_one else GeneralMatcher)


def test_a_condition_that_fails_names_its_row():
    spec = begin("a").next("b").where("price / a.price > cast(1 as double)").spec
    program = Program(dataclasses.replace(spec), schema_of("word string, price double, at long"), step="p")
    rows = schema_of("word string, price double, at long")
    matcher = key_matcher(program, rows, step="p", keeps_expired=False)
    assert isinstance(matcher, LinearMatcher)
    events = [(0, 1, ("x", 0.0, 1), 1, ()), (1, 2, ("y", 5.0, 2), 1, ())]
    with pytest.raises(StepFailed, match="division") as caught:
        matcher.match(None, events, NEVER - 1)
    assert '"word": "y"' in str(caught.value.found)


def test_at_the_end_of_time_nothing_is_kept():
    program = Program(begin("a").followed_by("b").where("word = 'b'").spec, ROWS, step="p")
    for matcher in (
        GeneralMatcher(program, keeps_expired=False),
        LinearMatcher(program, ROWS, step="p", keeps_expired=False),
    ):
        events = [(0, 1, ("x", 0, None, 1), 1, ())]
        assert matcher.match(None, events, 5).saved is not None
        assert matcher.match(None, events, MAX_TIME).saved is None


@pytest.mark.parametrize("skip", ["no_skip", "skip_past_last_event", "skip_to_next"])
def test_only_rows_that_a_partial_match_can_still_use_are_kept(skip):
    """However many rows came: of a, b, a, b, ... the last two wait for c, and a long run that ended leaves nothing."""
    stages = begin("a").where("word = 'a'").next("b").where("word = 'b'").next("c").where("word = 'c'")
    program = Program(getattr(stages, skip)().spec, ROWS, step="p")
    rows = [("ab"[place % 2], 0, None, place) for place in range(1000)]
    bits, cells = examined(program, rows, ROWS)
    events = [(n, row[3], row, *known) for n, (row, *known) in enumerate(zip(rows, bits, cells, strict=True))]
    for matcher in (
        GeneralMatcher(program, keeps_expired=False),
        LinearMatcher(program, ROWS, step="p", keeps_expired=False),
    ):
        saved = matcher.match(None, events, 1000).saved
        assert [row for _, _, row in saved[0]] == rows[-2:]
        assert (len(saved[1]), len(saved[2])) == (2, 1)
        end = [(0, 1001, ("x", 0, None, 1001), 1, ())]
        assert matcher.match(saved, end, 1001).saved is None
