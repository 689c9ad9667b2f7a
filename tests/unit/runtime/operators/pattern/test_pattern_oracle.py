"""Both engines find what a plain search over all ways to choose rows finds, wherever their state is saved and loaded."""

import itertools
from collections import Counter

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pattern_runs import examined

from millstream.graph.patterns.pattern import PatternSpec
from millstream.graph.patterns.stage import Clause, Condition, Stage
from millstream.model.schema import schema_of
from millstream.runtime.operators.pattern.buffer import HeldEvent
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.linear import is_linear
from millstream.runtime.operators.pattern.matching import GeneralMatcher, LinearMatcher
from millstream.runtime.operators.pattern.nfa import Matcher

RUN = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
ROWS = schema_of("word string, at long, place long")
FAR = 10**9


class Oracle:
    """Chooses rows for stages in every possible way and keeps the ways that obey the rules."""

    def __init__(self, pattern, rows):
        self.stages, self.rows, self.within, self.found = pattern.stages, rows, pattern.within, []
        self.go(0, [], (), ())

    def fits(self, stage, place, taken=(), gaps=()):
        """Whether a row belongs to a stage and is near enough to the row before it."""
        gaps = [gap for gap in gaps if gap is not None]
        if taken and gaps and self.rows[place][1] - self.rows[taken[-1][1]][1] >= min(gaps):
            return False
        return self.rows[place][0] in letters_of(stage.where[0].condition)

    def in_time(self, taken, place):
        return self.within is None or not taken or self.rows[place][1] - self.rows[taken[0][1]][1] < self.within

    def go(self, k, taken, nots, left):
        """Go on with stage `k`; `left` are greedy stages that were left since the last row was taken."""
        if k == len(self.stages):
            self.found.append(tuple(taken))
            return
        stage = self.stages[k]
        if stage.contiguity == "not_followed":
            self.go(k + 1, taken, (*nots, stage), left)
        elif stage.contiguity == "not_next":
            self.not_next(k, stage, taken, nots, left)
        else:
            if stage.optional:
                self.go(k + 1, taken, nots, (*left, *self.leaving(stage, stage.contiguity, [stage.gap])))
            self.more(k, stage, taken, nots, 0, left)

    def not_next(self, k, stage, taken, nots, left):
        place = taken[-1][1] + 1
        is_there = place < len(self.rows) and self.in_time(taken, place)
        is_other = is_there and not any(self.fits(other, place) for other in (*nots, stage))
        if is_other and self.may_go_on(left, taken, place):
            self.go(k + 1, taken, nots, left)

    def leaving(self, stage, contiguity, gaps):
        return [(stage, contiguity, gaps)] if stage.greedy else []

    def may_go_on(self, left, taken, place):
        """Whether no greedy stage that was left would have taken a row up to this one."""
        return all(self.is_exhausted(*each, taken, place) for each in left)

    def is_exhausted(self, stage, contiguity, gaps, taken, end):
        for place in range(taken[-1][1] + 1 if taken else 0, end + 1):
            if self.ends(stage, place):
                return True
            if self.fits(stage, place, taken, gaps):
                return False
            if contiguity == "strict":
                return True
        return True

    def more(self, k, stage, taken, nots, count, left):
        contiguity = stage.contiguity if count == 0 else stage.inner
        gaps = [stage.gap] if count == 0 else [stage.gap, stage.repeat_gap]
        if count >= stage.least:
            self.go(k + 1, taken, (), self.leaving(stage, contiguity, gaps) if count != stage.most else ())
        if count == stage.most:
            return
        following = []
        for other in self.stages[k + 1 :]:
            if other.contiguity != "not_followed":
                break
            following.append(other)
        stops = nots if count == 0 else following
        for place in range(taken[-1][1] + 1 if taken else 0, len(self.rows)):
            if taken and (not self.in_time(taken, place) or any(self.fits(other, place) for other in stops)):
                return
            fits = self.fits(stage, place, taken, gaps)
            if fits and not self.ends(stage, place) and self.may_go_on(left, taken, place):
                self.more(k, stage, [*taken, (k, place)], (), count + 1, ())
            if not taken:
                continue
            passes = contiguity == "any" or (contiguity == "relaxed" and not fits)
            if not passes or (count and self.ends(stage, place)):
                return

    def ends(self, stage, place):
        return stage.until is not None and self.rows[place][0] in letters_of(stage.until)


def letters_of(condition):
    return condition.text.split("'")[1::2]


def condition(letters):
    return Condition(text=f"word in ({', '.join(map(repr, letters))})")


@st.composite
def stages_of(draw, place):
    kinds = ["strict", "relaxed", "any"] if place else ["strict"]
    times = draw(st.sampled_from([(1, 1), (1, 1), (1, None), (2, 2), (1, 2), (2, 3), (2, None)]))
    inner = draw(st.sampled_from(["strict", "relaxed", "any"]))
    contiguity = draw(st.sampled_from(kinds))
    greedy = times[1] != 1 and draw(st.booleans())
    optional = bool(place) and draw(st.booleans())
    until = condition(draw(st.sampled_from(["a", "d"]))) if times[1] is None and draw(st.booleans()) else None
    gaps = st.sampled_from([None, None, None, 2, 3])
    letters = draw(st.sampled_from(["a", "b", "ab", "bc", "abc", "abcd"]))
    return Stage(
        name=f"s{place}",
        contiguity=contiguity,
        where=(Clause(condition=condition(letters)),),
        until=until,
        least=times[0],
        most=times[1],
        inner=inner,
        greedy=greedy,
        optional=optional,
        gap=draw(gaps) if place else None,
        repeat_gap=draw(gaps) if times[1] != 1 else None,
    )


@st.composite
def patterns_of(draw, *, strict=False):
    stages = []
    for place in range(draw(st.integers(1, 4))):
        stage = draw(stages_of(place))
        before = stages[-1] if stages else None
        if strict:
            stage = strictly(stage)
        elif before is not None and not before.optional and not before.is_not and draw(st.integers(0, 4)) == 0:
            kind = draw(st.sampled_from(["not_followed"] if before.is_repeated else ["not_next", "not_followed"]))
            letters = draw(st.sampled_from(["a", "b", "d"]))
            stages.append(Stage(name=f"n{place}", contiguity=kind, where=(Clause(condition=condition(letters)),)))
        stages.append(stage)
    if all(stage.optional for stage in stages if not stage.is_not):
        stages = stages[:1]
    if stages[-1].optional and any(stage.contiguity == "not_followed" for stage in stages):
        stages = [stage for stage in stages if not stage.is_not]
    return PatternSpec(stages=tuple(stages), within=draw(st.sampled_from([3, 5, 40])))


def strictly(stage):
    """A stage that leaves no choice: strict, and greedy when it is repeated."""
    return Stage(
        name=stage.name,
        where=stage.where,
        least=stage.least,
        most=stage.most,
        inner="strict",
        greedy=stage.is_repeated,
        optional=stage.optional and stage.is_repeated,
    )


rows_ = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), max_size=7).map(
    lambda steps: [(word, sum(step for _, step in steps[: place + 1])) for place, (word, _) in enumerate(steps)]
)


def run(pattern, rows, cuts, time_cuts=()):
    program = Program(pattern, ROWS, step="p")
    names, numbers = pattern.names, {stage.name: place for place, stage in enumerate(pattern.stages)}
    found, expired = [], []

    def collect(into):
        def add(node, time):
            taken = []
            while node is not None:
                taken.append((numbers[names[node.stage]], node.event.number))
                node = node.before
            into.append(tuple(reversed(taken)))

        return add

    matcher = Matcher(program, collect(found), collect(expired))
    bits, cells = examined(program, numbered(rows), ROWS)
    for place, (row, known, values) in enumerate(zip(rows, bits, cells, strict=True)):
        if place in time_cuts:
            matcher.expire(row[1] - 1)
        matcher.feed(HeldEvent(place, row[1], row, known, values))
        if place in cuts:
            saved, matcher = matcher.save(), Matcher(program, collect(found), collect(expired))
            if saved is not None:
                matcher.load(msgspec.msgpack.decode(msgspec.msgpack.encode(saved)))
    matcher.expire(FAR)
    assert matcher.save() is None
    return found, expired


def by_piece(pattern, rows, cuts, *, linear):
    """As `run`, through what operators call: the rows of an epoch at once, partial matches saved between them."""
    program = Program(pattern, ROWS, step="p")
    matcher = (
        LinearMatcher(program, ROWS, step="p", keeps_expired=True) if linear
        else GeneralMatcher(program, keeps_expired=True)
    )  # fmt: skip
    bits, cells = examined(program, numbered(rows), ROWS)
    found, expired, saved = [], [], None
    bounds = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    for start, end in itertools.pairwise(bounds):
        events = [(n - start, rows[n][1], numbered(rows)[n], bits[n], cells[n]) for n in range(start, end)]
        until = FAR if end == len(rows) else rows[end - 1][1] if end else 0
        made = matcher.match(saved, events, until)
        for into, chains in ((found, made.found), (expired, made.expired)):
            into += [[[row[2] for row in stage] for stage in matcher.rows(tail)] for tail, _ in chains]
        saved = None if made.saved is None else msgspec.msgpack.decode(msgspec.msgpack.encode(made.saved))
    assert saved is None
    return sorted(found), sorted(expired)


def numbered(rows):
    return [(word, at, place) for place, (word, at) in enumerate(rows)]


cuts_ = st.sets(st.integers(0, 6))


@RUN
@given(pattern=patterns_of(), rows=rows_, cuts=cuts_, times=cuts_)
def test_every_match_is_found_once(pattern, rows, cuts, times):
    expected = Oracle(pattern, rows).found
    plain, expired = run(pattern, rows, ())
    assert Counter(plain) == Counter(expected)
    assert run(pattern, rows, cuts, times) == (plain, expired)
    general = by_piece(pattern, rows, cuts, linear=False)
    assert general == (by_stage(pattern, plain), by_stage(pattern, expired))
    if is_linear(Program(pattern, ROWS, step="p")):
        assert by_piece(pattern, rows, cuts, linear=True) == general


@RUN
@given(pattern=patterns_of(strict=True), rows=rows_, cuts=cuts_)
def test_made_source_finds_the_same(pattern, rows, cuts):
    assert is_linear(Program(pattern, ROWS, step="p"))
    found, expired = by_piece(pattern, rows, cuts, linear=True)
    assert found == by_stage(pattern, Oracle(pattern, rows).found)
    assert (found, expired) == by_piece(pattern, rows, cuts, linear=False)


def by_stage(pattern, matches):
    return sorted(
        [[row for k, row in taken if k == place] for place in range(len(pattern.stages))] for taken in matches
    )


@RUN
@given(
    pattern=patterns_of(strict=True),
    rows=rows_,
    cuts=cuts_,
    times=cuts_,
    skip=st.sampled_from(["to_next", "past_last", "to_first", "to_last"]),
    place=st.integers(0, 3),
)
def test_matches_that_were_skipped_are_left_out(pattern, rows, cuts, times, skip, place):
    names = pattern.names
    to = names[place % len(names)] if skip in {"to_first", "to_last"} else None
    skipping = PatternSpec(stages=pattern.stages, within=pattern.within, skip=skip, skip_to=to)
    limit, expected = 0, []
    for taken in sorted(Oracle(pattern, rows).found, key=lambda match: match[0][1]):
        if taken[0][1] >= limit:
            expected.append(taken)
            limit = max(limit, after(taken, skip, None if to is None else names.index(to)))
    found, expired = run(skipping, rows, ())
    assert found == expected
    assert run(skipping, rows, cuts, times) == (found, expired)


def after(taken, skip, stage):
    if skip == "to_next":
        return taken[0][1] + 1
    if skip == "past_last":
        return taken[-1][1] + 1
    rows = [row for number, row in taken if number == stage]
    return (rows[0] if skip == "to_first" else rows[-1]) if rows else 0
