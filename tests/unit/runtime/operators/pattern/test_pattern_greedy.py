"""Greedy stages and `until`: when a repeated stage ends, and what a match does then."""

import pytest
from pattern_runs import every_cut, matches, starts

import millstream as ms

begin = ms.pattern.begin
A = begin("a").where(starts("a"))


@pytest.mark.parametrize("skip", ["no_skip", "skip_past_last_event"])
@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (lambda b: b.one_or_more(), ["a b1", "a b1 b2", "a b1 b2 b3"]),
        (lambda b: b.one_or_more().consecutive(), ["a b1", "a b1 b2"]),
        (lambda b: b.times(2, 5), ["a b1 b2", "a b1 b2 b3"]),
        (lambda b: b.one_or_more().optional(), ["a", "a b1", "a b1 b2", "a b1 b2 b3"]),
    ],
)
def test_on_the_last_stage_greedy_changes_nothing(stage, expected, skip):
    pattern = getattr(stage(A.next("b").where(starts("b"))), skip)().within("10s")
    expected = expected if skip == "no_skip" else expected[:1]
    for each in (pattern, pattern.greedy()):
        assert every_cut(each, "a b1 b2 x b3", until=10**9) == (expected, [])


def test_a_greedy_last_stage_loses_nothing_when_no_row_follows():
    pattern = begin("c").where(starts("c")).next("a").where(starts("a")).one_or_more().greedy()
    assert every_cut(pattern, "c a1 a2") == (["c a1", "c a1 a2"], [])
    assert every_cut(pattern.within("10ms"), "c@1 a1@2 a2@3", until=10**9) == (["c a1", "c a1 a2"], [])


def test_optional_stages_behind_a_greedy_one_do_not_hold_back_the_match_without_them():
    pattern = A.one_or_more().greedy().consecutive().followed_by("d").where(starts("d")).optional()
    assert sorted(matches(pattern, "a1 a2 d")) == ["a1", "a1 a2", "a1 a2 d", "a2", "a2 d"]


GREEDY = begin("c").where(starts("c")).followed_by("a").where(starts("a")).one_or_more().greedy()
UNTIL = GREEDY.until("price > 3")
D = starts("d")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (GREEDY.followed_by("d").where(D), "c x a1 x a2 d", ["c a1 a2 d"]),
        (GREEDY.followed_by("d").where(D), "c a1 d1 d2", ["c a1 d1"]),
        (GREEDY.followed_by("d").where(D), "c a1 d1 a2 d2", ["c a1 a2 d2", "c a1 d1"]),
        (GREEDY.followed_by_any("d").where(D), "c a1 d1 d2", ["c a1 d1", "c a1 d2"]),
        (GREEDY.next("d").where(D), "c a1 x d", []),
        (GREEDY.next("d").where(D), "c a1 x a2 d", ["c a1 a2 d"]),
        (GREEDY.optional().followed_by("d").where(D), "c x d", ["c d"]),
        (GREEDY.optional().followed_by("d").where(D), "c x a1 d", ["c a1 d"]),
        (UNTIL.optional().followed_by("d").where(D), "c a4 d", ["c d"]),
        (UNTIL.optional().followed_by("d").where(D), "c a4 a1 a2 d", ["c d"]),
        (UNTIL.optional().followed_by("d").where(D), "c a1 a2 a4 d", ["c a1 a2 d"]),
        (UNTIL.followed_by("d").where(D), "c a1 a2 a4 d", ["c a1 a2 d"]),
        (UNTIL.followed_by("d").where(D), "c a4 a1 d", []),
        (UNTIL.followed_by("d").where(D), "c a1 x a4 a2 d", ["c a1 d"]),
        (UNTIL.consecutive().followed_by("e").where("price > 3"), "c a1 a2 a5 a6", ["c a1 a2 a5"]),
        (
            GREEDY.optional().followed_by(begin("d").where(D).followed_by("e").where(starts("e"))).times(2),
            "c a1 a2 x a3 d1 e1 d2 e2",
            ["c a1 a2 a3 d1 e1 d2 e2"],
        ),
        (
            begin("c").where(starts("c")).followed_by("a").where(starts("a")).times(2, 5).greedy()
            .followed_by("d").where(D),
            "c a1 a2 a3 a4 d",
            ["c a1 a2 a3 a4 d"],
        ),
    ],
)  # fmt: skip
def test_a_greedy_stage_is_left_when_it_can_take_no_more(pattern, text, expected):
    assert sorted(matches(pattern, text)) == expected


LOOPED = begin("c").where(starts("c")).followed_by("a").where(starts("a")).one_or_more()
FIVE = "price = 5"
MORE = begin("c").where(starts("c")).followed_by_any("a").where(starts("a")).one_or_more()


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (LOOPED, "c a1 a2 a5 a6", ["c a1 a2 a5", "c a1 a5"]),
        (LOOPED.consecutive(), "c a1 a2 a5 a6", ["c a1 a2 a5", "c a1 a5"]),
        (
            LOOPED.allow_combinations(),
            "c a1 a2 a3 a5 a6",
            ["c a1 a2 a3 a5", "c a1 a2 a5", "c a1 a3 a5", "c a1 a5"],
        ),
        (LOOPED.optional(), "c a1 a2 a5 a6", ["c a1 a2 a5", "c a1 a5", "c a5"]),
        (
            LOOPED.optional().allow_combinations(),
            "c a1 a2 a3 a5 a6",
            ["c a1 a2 a3 a5", "c a1 a2 a5", "c a1 a3 a5", "c a1 a5", "c a5"],
        ),
    ],
)
def test_the_row_that_ends_a_stage_may_be_the_next_one(pattern, text, expected):
    assert sorted(matches(pattern.until(FIVE).followed_by("e").where(FIVE), text)) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (MORE, "c a1 a2 a5 a6", ["c a1", "c a1 a2", "c a2", "c a6"]),
        (MORE.optional(), "c a1 a2 a5 a6", ["c", "c a1", "c a1 a2", "c a2", "c a6"]),
        (MORE.consecutive(), "c a1 x a2 a5 a6", ["c a1", "c a2", "c a6"]),
        (
            MORE.allow_combinations(),
            "c a1 a2 a3 a5",
            ["c a1", "c a1 a2", "c a1 a2 a3", "c a1 a3", "c a2", "c a2 a3", "c a3"],
        ),
    ],
)
def test_until_ends_a_stage_that_has_begun(pattern, text, expected):
    """Where every later row may begin the stage, a later one begins it anew."""
    assert sorted(matches(pattern.until(FIVE), text)) == expected
