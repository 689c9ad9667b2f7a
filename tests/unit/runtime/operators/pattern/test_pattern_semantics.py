"""Contiguity, quantifiers, skip strategies and times, by the examples of Flink's documentation and some more."""

import pytest
from pattern_runs import every_cut, matches, starts

import millstream as ms

begin = ms.pattern.begin
A = begin("a").where(starts("a"))
AB = "a c b1 b2"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (A.next("b").where(starts("b")), []),
        (A.followed_by("b").where(starts("b")), ["a b1"]),
        (A.followed_by_any("b").where(starts("b")), ["a b1", "a b2"]),
        (A.next("c").where(starts("c")).next("b").where(starts("b")), ["a c b1"]),
        (A.not_next("n").where(starts("c")).followed_by("b").where(starts("b")), []),
        (A.not_next("n").where(starts("b")).followed_by("b").where(starts("b")), ["a b1"]),
        (A.not_followed_by("n").where(starts("c")).followed_by("b").where(starts("b")), []),
        (A.not_followed_by("n").where(starts("d")).followed_by("b").where(starts("b")), ["a b1"]),
    ],
)
def test_contiguity(pattern, expected):
    assert matches(pattern, AB) == expected


MANY = A.followed_by_any("b").where(starts("b")).one_or_more()
C = starts("c")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (MANY.consecutive().next("c").where(C), ["a b3 c"]),
        (MANY.followed_by("c").where(C), ["a b1 b2 b3 c", "a b1 b2 c", "a b1 c", "a b2 b3 c", "a b2 c", "a b3 c"]),
        (
            MANY.allow_combinations().followed_by("c").where(C),
            ["a b1 b2 b3 c", "a b1 b2 c", "a b1 b3 c", "a b1 c", "a b2 b3 c", "a b2 c", "a b3 c"],
        ),
    ],
)
def test_contiguity_within_a_repeated_stage(pattern, expected):
    assert sorted(matches(pattern, "a b1 d1 b2 d2 b3 c")) == expected


LOOP = begin("s").where(starts("C")).followed_by("m").where(starts("A")).one_or_more()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (LOOP.consecutive(), ["C A1 A2 A3 B", "C A1 A2 B", "C A1 B"]),
        (LOOP, ["C A1 A2 A3 A4 B", "C A1 A2 A3 B", "C A1 A2 B", "C A1 B"]),
        (LOOP.greedy(), ["C A1 A2 A3 A4 B"]),
        (LOOP.optional().greedy(), ["C A1 A2 A3 A4 B"]),
        (LOOP.optional(), ["C A1 A2 A3 A4 B", "C A1 A2 A3 B", "C A1 A2 B", "C A1 B", "C B"]),
    ],
)
def test_repeated_stages(pattern, expected):
    assert sorted(matches(pattern.followed_by("e").where(starts("B")), "C D A1 A2 A3 D A4 B")) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (A.times(2), ["a1 a2", "a2 a3", "a3 a4"]),
        (A.times(2).consecutive(), ["a1 a2", "a3 a4"]),
        (A.times(2).allow_combinations(), ["a1 a2", "a1 a3", "a1 a4", "a2 a3", "a2 a4", "a3 a4"]),
        (A.times(2, 3), ["a1 a2", "a1 a2 a3", "a2 a3", "a2 a3 a4", "a3 a4"]),
        (A.times_or_more(3), ["a1 a2 a3", "a1 a2 a3 a4", "a2 a3 a4"]),
        (A.times(4, 5), ["a1 a2 a3 a4"]),
    ],
)
def test_times(pattern, expected):
    assert sorted(matches(pattern, "a1 a2 b a3 a4")) == expected


def test_greedy_times_take_as_many_rows_as_there_are():
    pattern = A.times(1, 3).greedy().consecutive().next("b").where(starts("b"))
    assert matches(pattern, "a1 a2 a3 a4 b") == ["a2 a3 a4 b", "a3 a4 b", "a4 b"]
    assert matches(pattern.skip_past_last_event(), "a1 a2 a3 a4 b") == ["a2 a3 a4 b"]


def test_until_ends_a_repeated_stage():
    assert matches(A.one_or_more().until(starts("b")), "a1 c a2 b a3") == ["a1", "a1 a2", "a2", "a3"]


def test_until_ends_a_repeated_group():
    pattern = begin(A.next("b").where(starts("b"))).one_or_more().until(starts("x")).followed_by("c").where(starts("c"))
    assert sorted(matches(pattern, "a1 b1 a2 b2 c")) == ["a1 b1 a2 b2 c", "a1 b1 c", "a2 b2 c"]
    assert sorted(matches(pattern, "a1 b1 x a2 b2 c")) == ["a1 b1 c", "a2 b2 c"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (A.followed_by("b").where(starts("b")).optional().followed_by("c").where(C), ["a b c", "a c"]),
        (A.next("b").where(starts("b")).optional().next("c").where(C), ["a b c"]),
        (A.next("d").where(starts("d")).optional().next("b").where(starts("b")), ["a b"]),
        (begin("d").where(starts("d")).optional().next("a").where(starts("a")), ["a"]),
    ],
)
def test_optional_stages(pattern, expected):
    assert sorted(matches(pattern, "a b c")) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("a c1 b d", ["a c1 d"]), ("a b c1 d", []), ("a x c1 d", ["a c1 d", "a d"]), ("a b d", [])]
)
def test_what_must_not_come_counts_only_until_an_optional_stage_is_met(text, expected):
    pattern = A.not_followed_by("n").where(starts("b"))
    pattern = pattern.followed_by_any("c").where(C).optional().followed_by_any("d").where(starts("d"))
    assert sorted(matches(pattern, text)) == expected


def test_what_must_not_come_ends_a_repeated_stage_before_it():
    pattern = A.one_or_more().not_followed_by("n").where(starts("b")).followed_by("c").where(C)
    assert sorted(matches(pattern, "a1 b a2 c")) == ["a2 c"]
    assert sorted(matches(pattern, "a1 x b a2 c")) == ["a2 c"]
    assert sorted(matches(pattern, "a1 x a2 c")) == ["a1 a2 c", "a1 c", "a2 c"]


def test_not_next_at_the_end_is_decided_by_the_next_row():
    pattern = A.not_next("n").where(starts("b"))
    assert matches(pattern, "a1 b a2 c a3") == ["a2"]


GROUP = A.next("b").where(starts("b"))


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (begin(GROUP).times(2), "a1 b1 x a2 b2", ["a1 b1 a2 b2"]),
        (begin(GROUP).times(2).consecutive(), "a1 b1 x a2 b2 a3 b3", ["a2 b2 a3 b3"]),
        (
            begin("x").where(starts("x")).next(GROUP).optional().next("c").where(C),
            "x c x a1 b1 c",
            ["x a1 b1 c", "x c"],
        ),
        (
            begin("x").where(starts("x")).followed_by(GROUP).one_or_more(),
            "x a1 b1 y a2 b2",
            ["x a1 b1", "x a1 b1 a2 b2"],
        ),
        (begin(begin(GROUP).times(2).consecutive()).next("c").where(C), "a1 b1 a2 b2 c", ["a1 b1 a2 b2 c"]),
    ],
)
def test_groups(pattern, text, expected):
    assert sorted(matches(pattern, text)) == expected


BC = begin("b").where(starts("b")).one_or_more().greedy().consecutive().next("c").where(C)
BCD = (
    begin("x").where("substr(word, 1, 1) in ('a', 'b', 'c')").next("y").where("substr(word, 1, 1) in ('b', 'c')")
).next("z").where(C).one_or_more().greedy().next("d").where(starts("d"))  # fmt: skip
ANY = A.next("b").where(starts("b")).one_or_more()


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (BC.no_skip(), "b1 b2 b3 c", ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (BC.skip_to_next(), "b1 b2 b3 c", ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (BC.skip_past_last_event(), "b1 b2 b3 c", ["b1 b2 b3 c"]),
        (BC.skip_to_first("b"), "b1 b2 b3 c", ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (BC.skip_to_last("b"), "b1 b2 b3 c", ["b1 b2 b3 c", "b3 c"]),
        (BCD, "a b c1 c2 c3 d", ["a b c1 c2 c3 d", "b c1 c2 c3 d", "c1 c2 c3 d"]),
        (BCD.skip_to_first("z"), "a b c1 c2 c3 d", ["a b c1 c2 c3 d", "c1 c2 c3 d"]),
        (ANY.no_skip(), "a b1 b2 b3", ["a b1", "a b1 b2", "a b1 b2 b3"]),
        (ANY.skip_to_next(), "a b1 b2 b3", ["a b1"]),
    ],
)
def test_after_a_match(pattern, text, expected):
    assert matches(pattern, text) == expected


def test_skipping_to_a_stage_without_rows_skips_nothing():
    pattern = A.next("o").where(starts("o")).optional().next("b").where(starts("b"))
    assert matches(pattern.skip_to_last("o"), "a1 b1 a2 o b2") == ["a1 b1", "a2 o b2"]


def test_a_match_waits_for_what_began_before_it():
    """`a1` may still become a match that skips `a2 b`."""
    pattern = A.followed_by("e").where(starts("e"))
    inner = begin("x").where("word in ('a1', 'a2')").followed_by("y").where("price = x.price + 10")
    assert matches(inner.skip_past_last_event(), "a1 a2 b12 c") == []
    assert matches(inner.skip_past_last_event(), "a1 a2 b12 c11") == ["a1 c11"]
    assert matches(inner.no_skip(), "a1 a2 b12 c11") == ["a2 b12", "a1 c11"]
    assert matches(pattern.skip_past_last_event(), "a1 a2 e1 e2") == ["a1 e1"]


def test_time_between_the_first_and_the_last_row():
    pattern = A.followed_by("b").where(starts("b")).within("5s")
    found, expired = every_cut(pattern, "a1@0 b1@4999 a2@5000 b2@10000 a3@10001 c@20000", until=10**9)
    assert (found, expired) == (["a1 b1"], ["a2", "a3"])


def test_time_between_a_row_and_the_row_before_it():
    pattern = A.followed_by("b").where(starts("b")).within("1s", "previous_to_current").followed_by("c").where(C)
    found, expired = every_cut(pattern, "a1@0 b1@999 c1@90000 a2@100000 b2@101000 c2@101001", until=10**9)
    assert (found, expired) == (["a1 b1 c1"], ["a2"])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (A.times(3, within="2s"), ["a1 a2 a3"]),
        (A.times(2, within="2s"), ["a1 a2", "a2 a3"]),
        (A.one_or_more(within="2s"), ["a1", "a1 a2", "a1 a2 a3", "a2", "a2 a3", "a3", "a4"]),
        (A.times_or_more(2, within="2s").greedy().followed_by("c").where(C), ["a1 a2 a3 c", "a2 a3 c"]),
        (begin("b").where(starts("b")).followed_by("a").where(starts("a")).times(2, within="2s"), ["b a1 a2"]),
        (begin(A.followed_by("b").where(starts("b"))).times(2, within="2s"), []),
    ],
)
def test_time_between_repetitions(pattern, expected):
    """The first row of a stage may come as late as it likes; those behind it are near each other."""
    assert sorted(matches(pattern, "b@-9000 a1@0 a2@1999 a3@3000 a4@5000 c@9000")) == expected


def test_time_before_each_pass_through_a_group():
    pair = A.next("b").where(starts("b"))
    text = "a1@0 b1@9000 a2@9500 b2@20000 a3@25000 b3@25001"
    assert sorted(matches(begin(pair).times(2), text)) == ["a1 b1 a2 b2", "a2 b2 a3 b3"]
    assert sorted(matches(begin(pair).times(2, within="1s"), text)) == ["a1 b1 a2 b2"]
    near = begin(pair).times(2).within("1s", "previous_to_current")
    assert sorted(matches(near, text)) == ["a1 b1 a2 b2"]


def test_a_pattern_may_end_with_what_must_not_come_in_time():
    pattern = A.not_followed_by("n").where(starts("b")).within("5s")
    assert every_cut(pattern, "a1@0 b@4999 a2@10000 b@15000 a3@20000 c@21000", until=10**9) == (["a2", "a3"], [])
    loop = A.one_or_more().not_followed_by("n").where(starts("b")).within("5s")
    assert sorted(every_cut(loop, "a1@0 a2@1000", until=10**9)[0]) == ["a1", "a1 a2", "a2"]
    near = A.not_followed_by("n").where(starts("b")).within("2s", "previous_to_current")
    assert every_cut(near, "a1@0 b@1999 a2@10000 b@12000", until=10**9) == (["a2"], [])


def test_a_partial_match_that_timed_out_no_longer_holds_back_a_later_match():
    pattern = begin("x").where("word in ('a1', 'a2')").followed_by("y").where("price = x.price + 10").within("10s")
    found, expired = every_cut(pattern.skip_past_last_event(), "a1@0 a2@1000 b12@2000 d@9999", until=9999 + 2)
    assert (found, expired) == (["a2 b12"], ["a1"])


def test_what_one_deadline_sets_free_may_skip_what_the_next_would_end():
    """However far time moves at once: `a2 b12` comes at 10 s and skips `a3`, which would time out at 11.5 s."""
    pattern = begin("x").where(starts("a")).followed_by("y").where("price = x.price + 10").within("10s")
    text = "a1@0 a2@1000 a3@1500 b12@2000"
    assert every_cut(pattern.skip_past_last_event(), text, until=10**9) == (["a2 b12"], ["a1"])
    assert every_cut(pattern.skip_past_last_event(), text + " z@90000", until=10**9) == (["a2 b12"], ["a1"])
