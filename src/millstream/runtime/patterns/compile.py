"""From a pattern to states: where a partial match waits, which rows it takes there and which it passes over.

A state takes one stage, or forks to other states that see the same row. What follows a stage is built before the stage, so
every state knows its target. States are numbered in the order they are built, which depends on the structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from millstream.graph.pattern import Contiguity, PatternSpec, Stage
from millstream.model.schema import Schema
from millstream.runtime.patterns.conditions import Conditions, Test

PassOver = Literal["nothing", "others", "all"]
_PASSES: dict[Contiguity, PassOver] = {"strict": "nothing", "relaxed": "others", "any": "all"}


class Take:
    """Taking a row into a stage."""

    __slots__ = ("gap", "stage", "target", "test", "untils")

    def __init__(self, stage: int, test: Test, target: State, gap: int | None, untils: tuple[Test, ...]) -> None:
        self.stage, self.test, self.target, self.gap, self.untils = stage, test, target, gap, untils


class Fork:
    """Another state that sees the same row; behind a greedy stage only a row which that stage does not take."""

    __slots__ = ("guard", "target")

    def __init__(self, target: State, guard: State | None = None) -> None:
        self.target, self.guard = target, guard


class State:
    """Where a partial match waits."""

    __slots__ = (
        "accepts", "choices", "closes", "concludes", "forks", "is_final", "is_pending", "needs_row", "number", "otherwise",
        "passed_to", "passes", "patience", "stops", "take",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.take: Take | None = None
        self.passes: PassOver = "nothing"
        """Which rows do not end the wait: none, those it cannot take, or all."""
        self.passed_to: State = self
        self.closes: tuple[Test, ...] = ()
        """Rows that are not passed over, whatever else is."""
        self.forks: list[Fork] = []
        self.stops: tuple[Test, ...] = ()
        """Rows that end the partial match."""
        self.is_final = self.is_pending = self.needs_row = False
        self.accepts = False
        """Whether the match is whole here already, without a further row."""
        self.concludes = False
        """Whether the match is whole when its time runs out."""
        self.patience: int | None = None
        """How long after the last row any stage still takes one; `None` for ever."""
        self.choices: tuple[Take, ...] | None = None
        """When at most one thing can happen: the stages to try, of which the first that takes the row counts."""
        self.otherwise: State | None = None
        """Beside `choices`: where to wait when none takes the row; `None` ends the partial match."""


Built = Callable[[tuple[Stage, ...]], State]
"""Builds what follows a stage, given the stages that must not come before it."""


class Program:
    """A compiled pattern."""

    def __init__(self, pattern: PatternSpec, rows: Schema, *, step: str, is_lenient: bool = False) -> None:
        self.pattern, self.version, self.names = pattern, pattern.version, pattern.names
        self.taken = tuple(stage.name for stage in pattern.flat if not stage.is_not)
        """The names of stages that have rows."""
        self.conditions = Conditions(pattern, rows, step=step, is_lenient=is_lenient)
        self._numbers = {name: place for place, name in enumerate(pattern.names)}
        self.states: list[State] = []
        self.final = self._state()
        self.final.is_final = True
        self.start = self._sequence(pattern.stages, 0, (), None, (), self._end)
        self.conditions.bind()
        for state in self.states:
            state.accepts, state.concludes = _accepts(state), _concludes(state)
            state.patience = _patience(state)
        for state in self.states:
            found = _choices(state)
            if found is not None:
                state.choices, state.otherwise = found
        self.start_mask = self._start_mask()
        self.has_gaps = any(stage.gap is not None for stage in pattern.flat)
        self.has_deadlines = self.has_gaps or pattern.within is not None

    def _state(self) -> State:
        state = State(len(self.states))
        self.states.append(state)
        return state

    def _start_mask(self) -> int:
        """The bits of which a row has at least one if it can begin a match."""
        mask, waiting, seen = 0, [self.start], set()
        while waiting:
            state = waiting.pop()
            if state.number in seen:
                continue
            seen.add(state.number)
            mask |= state.take.test.mask if state.take is not None else 0
            waiting += [fork.target for fork in state.forks]
        return mask

    def _test(self, stage: Stage) -> Test:
        return self.conditions.stages[self._numbers[stage.name]]

    def _end(self, nots: tuple[Stage, ...]) -> State:
        """Behind the last stage; a stage that must not come makes the match wait for its time to pass."""
        if not nots:
            return self.final
        pending = self._state()
        pending.is_pending = True
        pending.passes = "all"
        pending.stops = tuple(map(self._test, nots))
        pending.patience = nots[-1].gap
        return pending

    def _sequence(
        self,
        stages: tuple[Stage, ...],
        place: int,
        nots: tuple[Stage, ...],
        head: Contiguity | None,
        untils: tuple[Test, ...],
        sink: Built,
    ) -> State:
        """The state before `stages[place]`; `head` replaces the contiguity of the first stage of a group."""
        if place == len(stages):
            return sink(nots)
        stage = stages[place]
        if stage.contiguity == "not_followed":
            return self._sequence(stages, place + 1, (*nots, stage), head, untils, sink)
        if stage.contiguity == "not_next":
            state = self._state()
            state.needs_row = True
            state.stops = tuple(map(self._test, (*nots, stage)))
            state.forks = [Fork(self._sequence(stages, place + 1, nots, head, untils, sink))]
            return state

        def after(remaining: tuple[Stage, ...]) -> State:
            return self._sequence(stages, place + 1, remaining, None, untils, sink)

        following = _following_nots(stages, place)
        return self._quantified(stage, head or stage.contiguity, (nots, following), untils, after)

    def _quantified(
        self,
        stage: Stage,
        contiguity: Contiguity,
        nots: tuple[tuple[Stage, ...], tuple[Stage, ...]],
        untils: tuple[Test, ...],
        after: Built,
    ) -> State:
        """A stage as often as it may come. Once it took a row, what must not come before it no longer counts."""
        before, following = nots
        outer = untils
        if stage.until is not None:
            untils = (*untils, self.conditions.until(stage.until, self._numbers[next(stage.named()).name]))
        done = after(())
        tail = done
        if stage.most is None:
            tail = self._state()
            tail.forks = self._either(self._element(stage, stage.inner, following, untils, tail), tail, done, stage)
        else:
            for _ in range(stage.most - stage.least):
                more = self._state()
                more.forks = self._either(self._element(stage, stage.inner, following, untils, tail), more, done, stage)
                tail = more
        for _ in range(stage.least - 1):
            tail = self._element(stage, stage.inner, following, untils, tail)
        first = self._element(stage, contiguity, before, untils, tail)
        if first.take is not None:
            # A stage can end only once it began: until then such a row is one that does not fit.
            first.closes = outer
        if not stage.optional:
            return first
        fork = self._state()
        fork.forks = self._either(first, fork, after(before) if before else done, stage)
        return fork

    def _either(self, element: State, here: State, other: State, stage: Stage) -> list[Fork]:
        """Another row of the stage, or what follows it."""
        if stage.greedy:
            # A row passed over must leave the way to the next stage open, since taking it was not possible before.
            element.passed_to = here
        return [Fork(element), Fork(other, element if stage.greedy else None)]

    def _element(
        self, stage: Stage, contiguity: Contiguity, nots: tuple[Stage, ...], untils: tuple[Test, ...], target: State
    ) -> State:
        """One row of a stage, or one pass through a group."""
        if stage.group:
            return self._sequence(stage.group, 0, nots, contiguity, untils, lambda _: target)
        state = self._state()
        number = self._numbers[stage.name]
        state.take = Take(number, self._test(stage), target, stage.gap, untils)
        state.passes = _PASSES[contiguity]
        state.closes = untils
        state.stops = tuple(map(self._test, nots))
        return state


def _following_nots(stages: Sequence[Stage], place: int) -> tuple[Stage, ...]:
    found = []
    for stage in stages[place + 1 :]:
        if stage.contiguity != "not_followed":
            break
        found.append(stage)
    return tuple(found)


def _accepts(state: State) -> bool:
    if state.is_final:
        return True
    return not state.needs_row and any(fork.guard is None and _accepts(fork.target) for fork in state.forks)


def _concludes(state: State) -> bool:
    return state.is_pending or any(_concludes(fork.target) for fork in state.forks)


def _patience(state: State) -> int | None:
    """The longest gap of the stages that may follow; without one for each of them there is no end."""
    if state.is_pending:
        return state.patience
    gaps = [state.take.gap] if state.take is not None else []
    gaps += [_patience(fork.target) for fork in state.forks if not fork.target.is_final]
    known = [gap for gap in gaps if gap is not None]
    return max(known) if known and len(known) == len(gaps) else None


def _choices(state: State) -> tuple[tuple[Take, ...], State | None] | None:
    """What to try one after the other, where no two things can happen for one row."""
    if state.stops or state.is_pending or state.needs_row:
        return None
    if state.is_final:
        return (), state
    if state.take is not None:
        if state.take.gap is not None or state.take.untils or state.passes == "all":
            return None
        return (state.take,), state.passed_to if state.passes == "others" else None
    first, *rest = state.forks
    element = first.target
    if len(rest) != 1 or rest[0].guard is not element or element.passes != "nothing":
        return None
    mine, others = _choices(element), _choices(rest[0].target)
    if mine is None or others is None:
        return None
    return mine[0] + others[0], others[1]
