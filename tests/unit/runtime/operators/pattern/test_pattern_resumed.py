"""Partial matches that were saved when a greedy last stage still held its matches back: none of them is lost."""

import pytest
from pattern_runs import ROWS, examined, rows_of, starts

import millstream as ms
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.matching import GeneralMatcher, LinearMatcher

C = ms.pattern.begin("c").where(starts("c"))
MANY = C.next("a").where(starts("a")).one_or_more().greedy()
EVENTS = [(0, 0, ("c", 0, 0)), (1, 1000, ("a1", 1, 1000)), (2, 2000, ("a2", 2, 2000))]
NODES = [(0, 0, -1), (1, 1, 0), (1, 2, 1)]
HELD = (EVENTS, NODES, [(1, 2)])
"""What was kept of `c a1 a2`: the match is whole, and was to be given with the first row that is no `a`."""


def engines(pattern):
    program = Program(pattern.spec, ROWS, step="p")
    return program, [
        GeneralMatcher(program, keeps_expired=True),
        LinearMatcher(program, ROWS, step="p", keeps_expired=True),
    ]


def resumed(pattern, saved, text, until):
    program, matchers = engines(pattern)
    rows = [tuple(row.values()) for row in rows_of(text)]
    bits, cells = examined(program, rows)
    outcomes = []
    for matcher in matchers:
        events = [(n, row[-1], row, bits[n], cells[n]) for n, row in enumerate(rows)]
        made = matcher.match(saved, events, until)
        said = [[row[0] for stage in matcher.rows(tail) for row in stage] for tail, _ in made.found]
        outcomes.append((sorted(map(" ".join, said)), [time for _, time in made.found], len(made.expired)))
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (MANY.consecutive().within("1m"), "x@3000", ["c a1 a2"]),
        (MANY.consecutive().within("1m"), "a3@3000", ["c a1 a2", "c a1 a2 a3"]),
        (MANY, "x@3000 a3@4000", ["c a1 a2", "c a1 a2 a3"]),
        (MANY.consecutive().skip_past_last_event(), "a3@3000", ["c a1 a2"]),
        (MANY.skip_to_next(), "x@3000 a3@4000", ["c a1 a2"]),
    ],
)
def test_a_match_that_was_held_back_is_given_with_the_next_row(pattern, text, found):
    assert resumed(pattern, HELD, text, 5000)[0] == found


def test_a_match_that_was_held_back_is_given_when_its_time_runs_out():
    assert resumed(MANY.consecutive().within("1m"), HELD, "", 70_000) == (["c a1 a2"], [60_000], 0)


def test_a_match_without_its_optional_greedy_stage_is_given_too():
    pattern = C.next("a").where(starts("a")).times(1, 3).greedy().optional()
    assert resumed(pattern, ([EVENTS[0]], [NODES[0]], [(6, 0)]), "x@3000", 5000)[0] == ["c"]


def test_what_is_saved_today_is_given_once():
    for matcher in engines(MANY.within("1m"))[1]:
        program = Program(MANY.within("1m").spec, ROWS, step="p")
        rows = [tuple(row.values()) for row in rows_of("c a1")]
        bits, cells = examined(program, rows)
        made = matcher.match(None, [(n, row[-1], row, bits[n], cells[n]) for n, row in enumerate(rows)], 1500)
        assert len(made.found) == 1
        assert matcher.match(made.saved, [], 2000).found == []
        assert matcher.match(made.saved, [], 70_000) == (None, matcher.match(None, [], 0).deadline, [], [])
