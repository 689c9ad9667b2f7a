"""The states of a compiled pattern, and what follows from how they hang together.

A state takes one stage, or forks to other states that see the same row. Behind a greedy stage a match goes on only with rows
that the stage does not take: where it waits there, a copy of the state says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from millstream.runtime.operators.pattern.conditions import Test

PassOver = Literal["nothing", "others", "all"]
Guards = tuple[int, ...]
"""The greedy stages that a match has left, and that would still take a row: the numbers of the states that take them."""


class Take:
    """Taking a row into a stage."""

    __slots__ = ("gap", "stage", "target", "test", "untils")

    def __init__(self, stage: int, test: Test, target: MatchState, gap: int | None, untils: tuple[Test, ...]) -> None:
        self.stage, self.test, self.target, self.gap, self.untils = stage, test, target, gap, untils


class Fork:
    """Another state that sees the same row; behind a greedy stage only a row which that stage does not take."""

    __slots__ = ("guard", "target")

    def __init__(self, target: MatchState, guard: MatchState | None = None) -> None:
        self.target, self.guard = target, guard

    @property
    def holds(self) -> bool:
        """Whether the greedy stage still waits for rows when this way was gone: it passes over others."""
        return self.guard is not None and self.guard.passes != "nothing"


class MatchState:
    """Where a partial match waits."""

    __slots__ = (
        "accepts", "blocks", "choices", "closes", "concludes", "forks", "is_final", "is_given", "is_pending", "needs_row",
        "number", "origin", "otherwise", "passes", "patience", "stops", "take",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.take: Take | None = None
        self.passes: PassOver = "nothing"
        """Which rows do not end the wait: none, those it cannot take, or all."""
        self.closes: tuple[Test, ...] = ()
        """Rows that are not passed over, whatever else is."""
        self.forks: list[Fork] = []
        self.stops: tuple[Test, ...] = ()
        """Rows that end the partial match."""
        self.blocks: tuple[MatchState, ...] = ()
        """Greedy stages before: a row that one of them takes ends the wait here, one that ends them lifts the guard."""
        self.origin: MatchState = self
        """The state without these guards."""
        self.is_final = self.is_pending = self.needs_row = False
        self.accepts = False
        """Whether the match is whole here already, without a further row."""
        self.is_given = False
        """Whether the rows so far were given as a match: what runs out of time here is none that failed."""
        self.concludes = False
        """Whether the match is whole when its time runs out."""
        self.patience: int | None = None
        """How long after the last row any stage still takes one; `None` for ever."""
        self.choices: tuple[Take, ...] | None = None
        """When at most one thing can happen: the stages to try, of which the first that takes the row counts."""
        self.otherwise: MatchState | None = None
        """Beside `choices`: where to wait when none takes the row; `None` ends the partial match."""

    @property
    def untils(self) -> tuple[Test, ...]:
        """The rows that end the repetition of its stage."""
        return () if self.take is None else self.take.untils

    def copy(self, number: int) -> MatchState:
        """The same with another number; nothing leads to it yet."""
        made = MatchState(number)
        made.take, made.passes, made.closes, made.forks = self.take, self.passes, self.closes, self.forks
        made.stops, made.blocks = self.stops, self.blocks
        made.is_final, made.is_pending, made.needs_row = self.is_final, self.is_pending, self.needs_row
        return made


Waits = dict[tuple[int, Guards], MatchState]
"""Where a match waits instead of in a state, by its number, when it left greedy stages that still wait for rows."""


def link(states: list[MatchState]) -> tuple[dict[int, int], Waits]:
    """Complete the states of a pattern; those that are added come behind, for partial matches are kept by number.

    Returns:
        Of states in which an earlier version of this program held back matches that are whole: which stands for them.
        And where to wait behind greedy stages.
    """
    held_back = [state for state in states if _accepts(state) and not _accepts_unguarded(state)]
    for state in states:
        for fork in state.forks:
            if not _goes_on(fork.target):
                # On the last stage every row more is a match of its own.
                fork.guard = None
    successors = _succeeded(states, [state for state in held_back if not state.is_final])
    waits = _waits(states)
    derive(states, waits)
    return successors, waits


def _accepts_unguarded(state: MatchState) -> bool:
    if state.is_final:
        return True
    return not state.needs_row and any(f.guard is None and _accepts_unguarded(f.target) for f in state.forks)


def _goes_on(state: MatchState) -> bool:
    """Whether a row can still be taken or is needed from here on."""
    return any(leaf.take is not None or leaf.needs_row for leaf in _reached(state))


def _reached(state: MatchState) -> Iterator[MatchState]:
    """A state and those it forks to."""
    waiting, seen = [state], set()
    while waiting:
        reached = waiting.pop()
        if reached.number not in seen:
            seen.add(reached.number)
            yield reached
            waiting += [fork.target for fork in reached.forks]


def _succeeded(states: list[MatchState], held_back: Iterable[MatchState]) -> dict[int, int]:
    successors: dict[int, MatchState] = {}
    for state in held_back:
        successors[state.number] = state.copy(len(states))
        states.append(successors[state.number])
    for state in states:
        if state.take is not None:
            state.take.target = successors.get(state.take.target.number, state.take.target)
    return {number: successor.number for number, successor in successors.items()}


def _waits(states: list[MatchState]) -> Waits:
    made: Waits = {}
    built = list(states)

    def walk(state: MatchState, guards: Guards) -> None:
        if state.take is not None and state.passes != "nothing" and guards and (state.number, guards) not in made:
            made[state.number, guards] = copy = state.copy(len(states))
            copy.blocks, copy.origin = tuple(built[number] for number in guards), state
            states.append(copy)
        for fork in state.forks:
            guard = fork.guard
            if guard is not None and fork.holds:
                walk(fork.target, (*guards, guard.number))
            if guard is None or guard.untils or not fork.holds:
                # A row that ends the stage lets the match go on unguarded.
                walk(fork.target, guards)

    for state in built:
        if state.forks:
            walk(state, ())
    return made


def derive(states: list[MatchState], waits: Waits) -> None:
    """What follows for each state from those it leads to."""
    for state in states:
        state.accepts, state.concludes = _accepts(state), _concludes(state)
        state.patience = _patience(state)
    for state in states:
        ways = _choices(state)
        if ways is not None:
            state.choices, state.otherwise = ways
    _mark_given(states, waits)


def _mark_given(states: list[MatchState], waits: Waits) -> None:
    entered: dict[int, list[bool]] = {}
    for target in {state.take.target.number: state.take.target for state in states if state.take is not None}.values():
        # A match waits in a state that forks until the next row, and then in one that it forks to.
        is_whole = any(state.is_final for state in _reached(target))
        for state in _reached(target):
            entered.setdefault(state.number, []).append(target.accepts if state is target else is_whole)
    for (number, _), state in waits.items():
        entered[state.number] = entered.get(number, [])
    for state in states:
        are_whole = entered.get(state.number, [])
        state.is_given = bool(are_whole) and all(are_whole)


def _accepts(state: MatchState) -> bool:
    return state.is_final or (not state.needs_row and any(_accepts(fork.target) for fork in state.forks))


def _concludes(state: MatchState) -> bool:
    return state.is_pending or any(_concludes(fork.target) for fork in state.forks)


def _patience(state: MatchState) -> int | None:
    """The longest gap of the stages that may follow; without one for each of them there is no end."""
    if state.is_pending:
        return state.patience
    gaps = [state.take.gap] if state.take is not None else []
    gaps += [_patience(fork.target) for fork in state.forks if not fork.target.is_final]
    known = [gap for gap in gaps if gap is not None]
    return max(known) if known and len(known) == len(gaps) else None


def _choices(state: MatchState) -> tuple[tuple[Take, ...], MatchState | None] | None:
    """What to try one after the other, where no two things can happen for one row."""
    if state.stops or state.blocks or state.is_pending or state.needs_row:
        return None
    if state.is_final:
        return (), None
    if state.take is not None:
        if state.take.gap is not None or state.take.untils or state.passes == "all":
            return None
        return (state.take,), state if state.passes == "others" else None
    first, *rest = state.forks
    mine, element = _choices(first.target), first.target
    if mine is None or len(rest) != 1:
        return None
    if rest[0].target.is_final:
        # It was given with its last row already.
        return mine
    others = _choices(rest[0].target)
    if others is None or rest[0].guard is not element or element.passes != "nothing":
        return None
    return mine[0] + others[0], others[1]
