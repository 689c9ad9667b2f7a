"""Patterns in which one row does at most one thing to a partial match, as Python source made for the pattern.

Stages that follow each other strictly, or take the next row that fits, and greedy repetitions without other rows between are of
this kind. The source has the states, the conditions and the running aggregates of the pattern written out; what it does is
what `nfa` does, which handles every pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from millstream.graph.patterns.match_expression import Reference
from millstream.model.schema import Schema
from millstream.runtime.bad_records import failure
from millstream.runtime.operators.pattern import chains
from millstream.runtime.operators.pattern.chains import Known, Partial, RowEvent, Skips, Whole
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.conditions import ALWAYS, Sourced, Test
from millstream.runtime.operators.pattern.folds import StageFold, is_kept
from millstream.runtime.operators.pattern.states import MatchState, Take

LinearRun = Callable[
    [Sequence[RowEvent], list[Partial], list[Whole], Known, Known, int], tuple[list[Partial], list[Whole]]
]
"""Takes the rows of a key, its partial and whole matches, where to put what is found and expired, and the time reached."""
_MOST_STATES = 40
"""The states are tried one after the other; with more of them the general way is faster."""
_NAMED = re.compile(r"\b(values|cells|row|constants)\[(\d+)\]")


def is_linear(program: Program) -> bool:
    """Whether one row does at most one thing to any partial match, and every condition is an expression."""
    if len(program.states) - len(program.successors) > _MOST_STATES or program.has_gaps:
        return False
    for state in program.states:
        if state.choices is None or state.concludes:
            return False
        if any(take.test.sources is None for take in state.choices):
            return False
    return True


def _waited_in(start: MatchState) -> list[MatchState]:
    """The states in which a partial match can wait for a row."""
    seen: set[int] = set()
    reachable: list[MatchState] = []
    following = [start]
    while following:
        state = following.pop(0)
        targets = [take.target for take in state.choices or ()]
        targets += [state.otherwise] if state.otherwise is not None and state is not start else []
        for target in targets:
            if target.number not in seen and not target.is_final:
                seen.add(target.number)
                reachable.append(target)
                following.append(target)
    return reachable


def linear_run(program: Program, rows: Schema, *, step: str, keeps_expired: bool) -> LinearRun:
    """Write and compile the source of a pattern."""
    writer = _MatcherWriter(program, rows)
    text = writer.source()
    pattern = program.pattern
    stage = None if pattern.skip_to is None else program.names.index(pattern.skip_to)
    is_given = [state.is_given for state in program.states]
    skips = Skips(pattern.skip, stage, within=pattern.within, is_given=is_given, keeps_expired=keeps_expired)

    def failed(event: RowEvent, problem: Exception) -> Exception:
        return failure(step, dict(zip(rows.names, event[2], strict=True)), problem)

    scope: dict[str, Any] = {
        **writer.scope,
        "release": skips.release,
        "expire": skips.expire,
        "add_whole": chains.add_whole,
        "nth_last": chains.nth_last,
        "nth_first": chains.nth_first,
        "failed": failed,
    }
    exec(compile(text, f"<pattern of {step}>", "exec"), scope)
    made: LinearRun = scope["run"]
    return made


class _MatcherWriter:
    """Writes the source of one pattern. `f0` is a running aggregate before the row under test, `a0` with it."""

    def __init__(self, program: Program, rows: Schema) -> None:
        self._program, self._names, self._types = program, rows.names, [field.type for field in rows]
        self._folds = program.conditions.folds
        self._stages = {name: place for place, name in enumerate(program.names)}
        self.scope: dict[str, Any] = {}
        for place, fold in enumerate(self._folds):
            self.scope[f"initial{place}"], self.scope[f"added{place}"] = fold.initial, fold.added
            self.scope[f"result{place}"] = fold.result

    def source(self) -> str:
        """The function `run`."""
        program = self._program
        lines = ["def run(events, runs, done, found, expired, until):", " event = None", " try:"]
        lines += ["  for event in events:", "   number, time, row, bits, cells = event"]
        lines += self._expiry("   ", "time")
        if program.start_mask != ALWAYS:
            lines += [f"   if not runs and not bits & {program.start_mask}:", "    continue"]
        lines += ["   kept = []", "   for run in runs:", f"    state, node, start{self._listed('f')} = run"]
        waiting = _waited_in(program.start)
        for place, state in enumerate(waiting):
            lines.append(f"    {'elif' if place else 'if'} state == {state.number}:")
            lines += self._state(state)
        if not waiting:
            lines.append("    pass")
        if program.start_mask:
            lines += ["   while True:", *self._begin(), "    break"]
        lines += ["   runs = kept"]
        if program.pattern.skip != "no_skip":
            lines += ["   if done and (not runs or runs[0][2][0] >= done[0][0]):"]
            lines += ["    runs, done = release(runs, done, time, found)"]
        elif program.successors:
            lines += ["   if done:", "    runs, done = release(runs, done, time, found)"]
        lines += [" except (ArithmeticError, TypeError) as problem:", "  raise failed(event, problem) from problem"]
        lines += [*self._expiry(" ", "until"), " return runs, done"]
        return "\n".join(lines)

    def _expiry(self, indent: str, time: str) -> list[str]:
        within = self._program.pattern.within
        if within is None:
            return []
        return [
            f"{indent}if runs and runs[0][2][1] + {within} <= {time}:",
            f"{indent} runs, done = expire(runs, done, {time}, found, expired)",
        ]

    def _listed(self, letter: str) -> str:
        return "".join(f", {letter}{place}" for place in range(len(self._folds)))

    def _state(self, state: MatchState) -> list[str]:
        """What a row does to a partial match that waits in a state."""
        assert state.choices is not None, "the pattern was found to be linear"
        lines = []
        for take in state.choices:
            lines += self._take(take, "     ", is_first=False, leave="continue")
        other = state.otherwise
        if other is None:
            lines.append("     continue")
        elif other is state:
            lines.append("     kept.append(run)")
        else:
            lines.append(f"     kept.append(({other.number}, node, start{self._listed('f')}))")
        return lines

    def _begin(self) -> list[str]:
        lines = [f"    f{place} = initial{place}" for place in range(len(self._folds))]
        assert self._program.start.choices is not None, "the pattern was found to be linear"
        for take in self._program.start.choices:
            lines += self._take(take, "    ", is_first=True, leave="break")
        return lines

    def _take(self, take: Take, indent: str, *, is_first: bool, leave: str) -> list[str]:
        """Take the row if it fits, and leave."""
        lines = []
        if take.test.mask != ALWAYS:
            lines.append(f"{indent}if bits & {take.test.mask}:")
            indent += " "
        own = [place for place, fold in enumerate(self._folds) if fold.stage == take.stage]
        lines += [f"{indent}a{place} = {self._added(place)}" for place in own]
        if tests := self._tests(take.test, is_first=is_first):
            lines.append(f"{indent}if {' and '.join(f'{test} is True' for test in tests)}:")
            indent += " "
        before, start = ("None", "event") if is_first else ("node", "start")
        lines.append(f"{indent}link = ({take.stage}, event, {before})")
        if take.target.accepts:
            lines += self._whole(indent, f"{start}[0]", "link")
        if not take.target.is_final:
            folds = "".join(f", {'a' if place in own else 'f'}{place}" for place in range(len(self._folds)))
            lines.append(f"{indent}kept.append(({take.target.number}, link, {start}{folds}))")
        return [*lines, f"{indent}{leave}"]

    def _whole(self, indent: str, start: str, link: str) -> list[str]:
        if self._program.pattern.skip == "no_skip":
            return [f"{indent}found.append(({link}, time))"]
        return [f"{indent}add_whole(done, {start}, {link})"]

    def _tests(self, test: Test, *, is_first: bool) -> list[str]:
        assert test.sources is not None, "the pattern was found to be linear"
        return [self._test(sourced, is_first=is_first) for sourced in test.sources]

    def _test(self, sourced: Sourced, *, is_first: bool) -> str:
        def bound(named: re.Match[str]) -> str:
            kind, place = named.group(1), int(named.group(2))
            if kind == "row":
                return f"row[{place}]"
            if kind == "cells":
                return f"cells[{sourced.first_cell + place}]"
            if kind == "constants":
                return self._constant(sourced.source.constants[place])
            return self._value(sourced.source.references[place], sourced.own, is_first=is_first)

        return _NAMED.sub(bound, sourced.source.text)

    def _constant(self, value: Any) -> str:
        name = f"constant{len(self.scope)}"
        self.scope[name] = value
        return name

    def _value(self, reference: Reference, own: int, *, is_first: bool) -> str:
        """What a reference gives for a chain and the row under test."""
        stage = self._stages[reference.stage]
        if is_kept(reference):
            place = self._program.conditions.fold_place(reference)
            return self._result(place, f"{'a' if stage == own else 'f'}{place}")
        if is_first:
            # The row under test is the only one, and what is looked for is another one.
            return "None"
        assert reference.column is not None, f"{reference.name} is no aggregate"
        column, is_own = self._names.index(reference.column), stage == own
        if reference.kind == "first":
            return f"nth_first(node, {stage}, {column}, {reference.offset}, {'row' if is_own else None})"
        missing = reference.offset - is_own
        far = f"nth_last(node, {stage}, {column}, {missing})"
        return f"(node[1][2][{column}] if node[0] == {stage} else {far})" if missing == 0 else far

    def _added(self, place: int) -> str:
        """A running aggregate with the row under test; the common ones are written out."""
        fold, held = self._folds[place], f"f{place}"
        if fold.column is None:
            return f"{held} + 1"
        value = f"row[{fold.column}]"
        if fold.kind == "last":
            return value
        if fold.kind == "first":
            return f"{held} or ({value},)"
        if fold.kind in {"sum", "avg"} and not self._is_decimal(fold):
            return self._summed(fold, held, value)
        return f"added{place}({held}, row)"

    def _summed(self, fold: StageFold, held: str, value: str) -> str:
        if fold.kind == "sum":
            return f"{held} if (w := {value}) is None else w if {held} is None else {held} + w"
        first, more = "(float(w), 1)", f"({held}[0] + float(w), {held}[1] + 1)"
        return f"{held} if (w := {value}) is None else {first} if {held}[0] is None else {more}"

    def _result(self, place: int, held: str) -> str:
        fold = self._folds[place]
        if fold.kind == "first":
            return f"({held}[0] if {held} else None)"
        if fold.kind == "avg":
            if self._is_decimal(fold):
                return f"result{place}({held})"
            return f"({held}[0] / {held}[1] if {held}[1] else None)"
        return held

    def _is_decimal(self, fold: StageFold) -> bool:
        return fold.column is not None and pa.types.is_decimal(self._types[fold.column])
