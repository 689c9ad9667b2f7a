"""From a pattern to states: where a partial match waits, which rows it takes there and which it passes over.

A state takes one stage, or forks to other states that see the same row. What follows a stage is built before the stage, so
every state knows its target. States are numbered in the order they are built, which depends on the structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from millstream.graph.patterns.pattern import PatternSpec
from millstream.graph.patterns.stage import Contiguity, Stage
from millstream.model.schema import Schema
from millstream.runtime.operators.pattern.conditions import PatternConditions, Test
from millstream.runtime.operators.pattern.states import Fork, MatchState, PassOver, Take, link

_PASSES: dict[Contiguity, PassOver] = {"strict": "nothing", "relaxed": "others", "any": "all"}


class StageEntry(NamedTuple):
    """How near the first row of a stage, or of a pass through a group, follows the row before it."""

    contiguity: Contiguity
    gap: int | None


Built = Callable[[tuple[Stage, ...]], MatchState]
"""Builds what follows a stage, given the stages that must not come before it."""


class Program:
    """A compiled pattern."""

    def __init__(self, pattern: PatternSpec, rows: Schema, *, step: str, is_lenient: bool = False) -> None:
        self.pattern, self.version, self.names = pattern, pattern.version, pattern.names
        self.taken = tuple(stage.name for stage in pattern.flat if not stage.is_not)
        """The names of stages that have rows."""
        self.conditions = PatternConditions(pattern, rows, step=step, is_lenient=is_lenient)
        self._numbers = {name: place for place, name in enumerate(pattern.names)}
        self.states: list[MatchState] = []
        self.final = self._state()
        self.final.is_final = True
        self.start = self._sequence(pattern.stages, 0, (), None, (), self._end)
        self.conditions.bind()
        self.successors, self.waits = link(self.states)
        self.start_mask = self._start_mask()
        self.has_gaps = any(state.patience is not None for state in self.states)
        self.has_deadlines = self.has_gaps or pattern.within is not None

    def _state(self) -> MatchState:
        state = MatchState(len(self.states))
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

    def _end(self, nots: tuple[Stage, ...]) -> MatchState:
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
        head: StageEntry | None,
        untils: tuple[Test, ...],
        sink: Built,
    ) -> MatchState:
        """The state before `stages[place]`; `head` says how the first stage of a group follows."""
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

        def after(remaining: tuple[Stage, ...]) -> MatchState:
            return self._sequence(stages, place + 1, remaining, None, untils, sink)

        entry = StageEntry(stage.contiguity, stage.gap)
        if head is not None:
            entry = StageEntry(head.contiguity, _shortest(head.gap, stage.gap))
        return self._quantified(stage, entry, (nots, _following_nots(stages, place)), untils, after)

    def _quantified(
        self,
        stage: Stage,
        entry: StageEntry,
        nots: tuple[tuple[Stage, ...], tuple[Stage, ...]],
        untils: tuple[Test, ...],
        after: Built,
    ) -> MatchState:
        """A stage as often as it may come. Once it took a row, what must not come before it no longer counts."""
        before, following = nots
        outer = untils
        if stage.until is not None:
            untils = (*untils, self.conditions.until(stage.until, self._numbers[next(stage.named()).name]))
        inner = StageEntry(stage.inner, _shortest(stage.gap, stage.repeat_gap))
        done = after(())
        tail = done
        if stage.most is None:
            tail = self._state()
            tail.forks = _either(self._element(stage, inner, following, untils, tail), done, stage)
        else:
            for _ in range(stage.most - stage.least):
                more = self._state()
                more.forks = _either(self._element(stage, inner, following, untils, tail), done, stage)
                tail = more
        for _ in range(stage.least - 1):
            tail = self._element(stage, inner, following, untils, tail)
        first = self._element(stage, entry, before, untils, tail)
        if first.take is not None:
            # A stage can end only once it began: until then such a row is one that does not fit.
            first.closes = outer
        if not stage.optional:
            return first
        fork = self._state()
        fork.forks = _either(first, after(before) if before else done, stage)
        return fork

    def _element(
        self, stage: Stage, entry: StageEntry, nots: tuple[Stage, ...], untils: tuple[Test, ...], target: MatchState
    ) -> MatchState:
        """One row of a stage, or one pass through a group."""
        if stage.group:
            return self._sequence(stage.group, 0, nots, entry, untils, lambda _: target)
        state = self._state()
        number = self._numbers[stage.name]
        state.take = Take(number, self._test(stage), target, entry.gap, untils)
        state.passes = _PASSES[entry.contiguity]
        state.closes = untils
        state.stops = tuple(map(self._test, nots))
        return state


def _following_nots(stages: Sequence[Stage], place: int) -> tuple[Stage, ...]:
    nots = []
    for stage in stages[place + 1 :]:
        if stage.contiguity != "not_followed":
            break
        nots.append(stage)
    return tuple(nots)


def _shortest(*gaps: int | None) -> int | None:
    return min((gap for gap in gaps if gap is not None), default=None)


def _either(element: MatchState, other: MatchState, stage: Stage) -> list[Fork]:
    """Another row of the stage, or what follows it."""
    return [Fork(element), Fork(other, element if stage.greedy else None)]
