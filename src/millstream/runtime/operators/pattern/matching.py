"""Matches the rows of one key: by source made for the pattern where that can be had, in the general way otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from millstream.model.schema import Schema
from millstream.model.time import MAX_TIME
from millstream.runtime.operators.pattern import chains
from millstream.runtime.operators.pattern.buffer import BufferNode, HeldEvent, Row, Saved, rows_of, settled
from millstream.runtime.operators.pattern.chains import Known, RowEvent
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.linear import is_linear, linear_run
from millstream.runtime.operators.pattern.nfa import Matcher
from millstream.state.pages import NEVER


class Matched(NamedTuple):
    """What the rows of a key gave."""

    saved: Saved | None
    deadline: int
    """When the first of the partial matches runs out of time."""
    found: Known
    expired: Known


class KeyMatcher(Protocol):
    """A pattern, ready to be looked for in the rows of any key."""

    def match(self, saved: Saved | None, events: Sequence[RowEvent], until: int) -> Matched:
        """Go on from what was saved with more rows, numbered from zero on or higher, and let time pass."""
        ...

    def rows(self, tail: Any) -> list[list[Row]]:
        """The rows of a match by stage."""
        ...


def key_matcher(program: Program, rows: Schema, *, step: str, keeps_expired: bool) -> KeyMatcher:
    """The fastest way to look for a pattern."""
    if is_linear(program):
        return LinearMatcher(program, rows, step=step, keeps_expired=keeps_expired)
    return GeneralMatcher(program, keeps_expired=keeps_expired)


class LinearMatcher:
    """For patterns in which one row does at most one thing to a partial match."""

    def __init__(self, program: Program, rows: Schema, *, step: str, keeps_expired: bool) -> None:
        self._run = linear_run(program, rows, step=step, keeps_expired=keeps_expired)
        self._folds, self._stages = program.conditions.folds, len(program.names)
        self._within, self._successors = program.pattern.within, program.successors

    def match(self, saved: Saved | None, events: Sequence[RowEvent], until: int) -> Matched:
        """Run the pattern's own source."""
        matches: Known = []
        expired: Known = []
        runs, done = ([], []) if saved is None else chains.load(settled(saved, self._successors), self._folds)
        runs, done = self._run(events, runs, done, matches, expired, until)
        if not runs or until >= MAX_TIME:
            # A whole match waits for partial ones only, and at the end of time no row can follow.
            return Matched(None, NEVER, matches, expired)
        deadline = NEVER if self._within is None else runs[0][2][1] + self._within
        return Matched(chains.save(runs, done), deadline, matches, expired)

    def rows(self, tail: Any) -> list[list[Row]]:
        """The rows of a match by stage."""
        return chains.rows_by_stage(tail, self._stages)


class GeneralMatcher:
    """For every pattern."""

    def __init__(self, program: Program, *, keeps_expired: bool) -> None:
        self._program, self._keeps_expired = program, keeps_expired

    def match(self, saved: Saved | None, events: Sequence[RowEvent], until: int) -> Matched:
        """Give the rows to the automaton; one that can neither begin a match nor meet a partial one is passed by."""
        matches: Known = []
        expired: Known = []

        def whole(node: BufferNode, time: int) -> None:
            matches.append((node, time))

        def gone(node: BufferNode, time: int) -> None:
            expired.append((node, time))

        matcher = Matcher(self._program, whole, gone if self._keeps_expired else None)
        if saved is not None:
            matcher.load(settled(saved, self._program.successors))
        number, start_mask = matcher.next_number(), self._program.start_mask
        for _, time, row, bits, cells in events:
            if matcher.runs or bits & start_mask:
                matcher.feed(HeldEvent(number, time, row, bits, cells))
            number += 1
        matcher.expire(until)
        if until >= MAX_TIME:
            return Matched(None, NEVER, matches, expired)
        return Matched(matcher.save(), matcher.deadline(), matches, expired)

    def rows(self, tail: Any) -> list[list[Row]]:
        """The rows of a match by stage."""
        return [[event.row for event in events] for events in rows_of(tail, len(self._program.names))]
