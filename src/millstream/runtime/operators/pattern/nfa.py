"""Runs a compiled pattern over the rows of one key: partial matches, whole matches that wait, and time that runs out."""

from __future__ import annotations

import bisect
from collections.abc import Callable

from millstream.runtime.operators.pattern.buffer import (
    WHOLE,
    BufferNode,
    HeldEvent,
    PartialMatch,
    Saved,
    first_of,
    rows_of,
    save,
)
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.conditions import Test
from millstream.runtime.operators.pattern.states import Fork, Guards, MatchState, Take, Waits
from millstream.state.pages import NEVER

Found = Callable[[BufferNode, int], None]
"""Takes the last row of a match and the time at which the match is known."""


class Matcher:
    """The partial matches of one key.

    Unless every match counts (`no_skip`), a whole match waits until no partial match is left that began before it, because
    that one might become whole and skip it. So matches come in the order of their first rows.
    """

    __slots__ = ("_done", "_found", "_program", "_timed_out", "runs")

    def __init__(self, program: Program, found: Found, timed_out: Found | None) -> None:
        self._program, self._found, self._timed_out = program, found, timed_out
        self.runs: list[PartialMatch] = []
        """In the order of their first rows."""
        self._done: list[tuple[int, BufferNode]] = []

    def load(self, saved: Saved) -> None:
        """Go on with what `save` gave."""
        program, fold = self._program, self._program.conditions.folded
        events = [HeldEvent(number, time, row) for number, time, row in saved[0]]
        nodes: list[BufferNode] = []
        for stage, event, before in saved[1]:
            previous = None if before < 0 else nodes[before]
            nodes.append(BufferNode(stage, events[event], previous, fold(previous, stage, events[event])))
        for state, place in saved[2]:
            start = first_of(nodes[place])
            if state == WHOLE:
                self._add_whole(start.number, nodes[place])
            else:
                self.runs.append(PartialMatch(program.states[state], nodes[place], start))

    def save(self) -> Saved | None:
        """What must be kept; `None` when nothing."""
        if not self.runs:
            # A whole match waits for partial ones only.
            return None
        whole = [(WHOLE, node) for _, node in self._done]
        return save([*((run.state.number, run.node) for run in self.runs), *whole])

    def next_number(self) -> int:
        """A number above those of all rows in use."""
        numbers = [run.node.event.number for run in self.runs] + [node.event.number for _, node in self._done]
        return max(numbers, default=-1) + 1

    def deadline(self) -> int:
        """The first instant at which a partial match runs out of time."""
        within = self._program.pattern.within
        if not self._program.has_gaps:
            return NEVER if within is None or not self.runs else self.runs[0].start.time + within
        return min(map(self._deadline, self.runs), default=NEVER)

    def _deadline(self, run: PartialMatch) -> int:
        within, patience = self._program.pattern.within, run.state.patience
        whole = NEVER if within is None else run.start.time + within
        return whole if patience is None else min(whole, run.node.event.time + patience)

    def expire(self, until: int) -> None:
        """Let time pass, one deadline after the other: what one of them sets free may skip what the next would end."""
        while (due := self.deadline()) <= until:
            expired = [run for run in self.runs if self._deadline(run) <= due]
            self.runs = [run for run in self.runs if self._deadline(run) > due]
            for run in expired:
                if run.state.concludes:
                    self._whole(run.start, run.node, due)
                elif self._timed_out is not None and not run.state.is_given:
                    self._timed_out(run.node, due)
            self._release(due)

    def feed(self, event: HeldEvent) -> None:
        """Try a row on every partial match, and as the first row of a new one."""
        if self._program.has_deadlines:
            self.expire(event.time)
        kept: list[PartialMatch] = []
        for run in self.runs:
            state, node = run.state, run.node
            if state.choices is None:
                self._branch(state, node, run.start, event, kept)
                continue
            for take in state.choices:
                test = take.test
                if event.bits & test.mask and (test.call is None or test.call(node, event)):
                    self._take(take, node, run.start, event, kept)
                    break
            else:
                if state.otherwise is not None:
                    kept.append(run if state.otherwise is state else PartialMatch(state.otherwise, node, run.start))
        if event.bits & self._program.start_mask:
            self._begin(event, kept)
        self.runs = kept
        if self._done:
            self._release(event.time)

    def _begin(self, event: HeldEvent, kept: list[PartialMatch]) -> None:
        start = self._program.start
        if start.choices is None:
            self._branch(start, None, event, event, kept)
            return
        for take in start.choices:
            if take.test.holds(None, event):
                self._take(take, None, event, event, kept)
                return

    def _branch(
        self, state: MatchState, node: BufferNode | None, start: HeldEvent, event: HeldEvent, kept: list[PartialMatch]
    ) -> None:
        """Everything that may become of a partial match with one more row."""
        outcome = _Outcome(node, event, self._program.waits)
        if not outcome.visit(state):
            return
        for take in outcome.takes:
            self._take(take, node, start, event, kept)
        if node is None:
            return
        if outcome.is_whole:
            self._whole(start, node, event.time)
        kept += [PartialMatch(stay, node, start) for stay in outcome.stays]

    def _take(
        self, take: Take, before: BufferNode | None, start: HeldEvent, event: HeldEvent, kept: list[PartialMatch]
    ) -> None:
        conditions = self._program.conditions
        folds = conditions.folded(before, take.stage, event) if conditions.folds else ()
        node = BufferNode(take.stage, event, before, folds)
        if take.target.accepts:
            self._whole(start, node, event.time)
        if not take.target.is_final:
            kept.append(PartialMatch(take.target, node, start))

    def _whole(self, start: HeldEvent, node: BufferNode, time: int) -> None:
        if self._program.pattern.skip == "no_skip":
            self._found(node, time)
        else:
            self._add_whole(start.number, node)

    def _add_whole(self, start: int, node: BufferNode) -> None:
        bisect.insort(self._done, (start, node), key=lambda match: match[0])

    def _release(self, time: int) -> None:
        """Give the matches that nothing earlier can skip any more."""
        while self._done:
            start, node = self._done[0]
            gives_all = self._program.pattern.skip == "no_skip"
            if not gives_all and self.runs and self.runs[0].start.number < start:
                return
            del self._done[0]
            self._found(node, time)
            if gives_all:
                continue
            limit = self._limit(start, node)
            self.runs = [run for run in self.runs if run.start.number >= limit]
            self._done = [match for match in self._done if match[0] >= limit]

    def _limit(self, start: int, node: BufferNode) -> int:
        """The first row at which a match may begin that counts beside this one."""
        pattern, names = self._program.pattern, self._program.names
        if pattern.skip == "to_next":
            return start + 1
        if pattern.skip == "past_last":
            return node.event.number + 1
        assert pattern.skip_to is not None, "the pattern was checked"
        rows = rows_of(node, len(names))[names.index(pattern.skip_to)]
        if not rows:
            return start
        return rows[0 if pattern.skip == "to_first" else -1].number


class _Outcome:
    """What may happen to one partial match with one row."""

    __slots__ = ("_event", "_node", "_seen", "_waits", "is_whole", "stays", "takes")

    def __init__(self, node: BufferNode | None, event: HeldEvent, waits: Waits) -> None:
        self._node, self._event, self._waits = node, event, waits
        self._seen: set[int] = set()
        self.takes: list[Take] = []
        self.stays: list[MatchState] = []
        self.is_whole = False

    def visit(self, state: MatchState, guards: Guards = (), *, is_late: bool = False) -> bool:
        """Look at a state and those it forks to; `False` when the row is one that must not come."""
        if state.is_final:
            # Where no row was waited for, the match was given when its last row was taken.
            self.is_whole |= is_late
            return True
        if state.number in self._seen or any(map(self._is_taken, state.blocks)):
            return True
        self._seen.add(state.number)
        if any(stop.holds(self._node, self._event) for stop in state.stops):
            return False
        if state.is_pending:
            self.stays.append(state)
        elif state.take is not None:
            self._try(state, state.take, guards)
        for fork in state.forks:
            held = self._held(fork, guards)
            if held is not None and not self.visit(fork.target, held, is_late=is_late or state.needs_row):
                return False
        return True

    def _held(self, fork: Fork, guards: Guards) -> Guards | None:
        """The greedy stages that were left on the way; `None` where one of them takes the row."""
        if fork.guard is None:
            return guards
        take = fork.guard.take
        assert take is not None, "groups are not greedy"
        if not self._is_open(take.untils):
            return guards
        if self._fits(take):
            return None
        return (*guards, fork.guard.number) if fork.holds else guards

    def _try(self, state: MatchState, take: Take, guards: Guards) -> None:
        fits = self._fits(take)
        if fits and self._is_open(take.untils):
            self.takes.append(take)
        if (state.passes == "all" or (state.passes == "others" and not fits)) and self._is_open(state.closes):
            guards = guards or tuple(block.number for block in state.blocks if self._is_open(block.untils))
            self.stays.append(self._waits[state.origin.number, guards] if guards else state.origin)

    def _is_taken(self, state: MatchState) -> bool:
        assert state.take is not None, "groups are not greedy"
        return self._fits(state.take) and self._is_open(state.take.untils)

    def _fits(self, take: Take) -> bool:
        if take.gap is not None and self._node is not None and self._event.time - self._node.event.time >= take.gap:
            return False
        return take.test.holds(self._node, self._event)

    def _is_open(self, untils: tuple[Test, ...]) -> bool:
        return not any(until.holds(self._node, self._event) for until in untils)
