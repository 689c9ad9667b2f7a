"""Partial matches as plain tuples, for patterns in which one row does at most one thing to a partial match.

The same partial matches as in `buffer`, saved in the same form, but cheaper to make: a row costs one tuple, a row taken into a
stage one more.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

from millstream.runtime.operators.pattern.buffer import WHOLE, Row, Saved, SavedEvent, SavedNode
from millstream.runtime.operators.pattern.folds import StageFold

RowEvent = tuple[int, int, Row, int, tuple[Any, ...]]
"""Number within the key, time, values, bits and cells."""
Link = tuple[int, RowEvent, Any]
"""Stage, the row taken into it, and the link before, or `None`."""
Partial = tuple[Any, ...]
"""State, last link, first row, and the running aggregates that conditions need."""
Whole = tuple[int, Link]
"""Number of the first row, and the last link."""
Known = list[tuple[Any, int]]
"""Chains, each with the time at which it is known what becomes of it."""


def load(saved: Saved, folds: Sequence[StageFold]) -> tuple[list[Partial], list[Whole]]:
    """Go on with what was saved. Numbers of rows are moved below zero: those that come are counted from zero."""
    above = max([number for number, _, _ in saved[0]]) + 1
    events: list[RowEvent] = [(number - above, time, row, 0, ()) for number, time, row in saved[0]]
    links, starts, held = _linked(saved[1], events, folds)
    runs: list[Partial] = []
    done: list[Whole] = []
    for state, place in saved[2]:
        if state == WHOLE:
            add_whole(done, starts[place][0], links[place])
        else:
            runs.append((state, links[place], starts[place], *held[place]))
    return runs, done


def _linked(
    nodes: Sequence[SavedNode], events: list[RowEvent], folds: Sequence[StageFold]
) -> tuple[list[Link], list[RowEvent], list[tuple[Any, ...]]]:
    """The link of each node, the first row of its chain, and the running aggregates up to it."""
    links: list[Link] = []
    starts: list[RowEvent] = []
    held: list[tuple[Any, ...]] = []
    initial = tuple([fold.initial for fold in folds])
    folded = {fold.stage for fold in folds}
    for stage, place, before in nodes:
        event = events[place]
        if before < 0:
            link: Link = (stage, event, None)
            start, values = event, initial
        else:
            link = (stage, event, links[before])
            start, values = starts[before], held[before]
        links.append(link)
        starts.append(start)
        held.append(_folded(folds, values, stage, event[2]) if stage in folded else values)
    return links, starts, held


def _folded(folds: Sequence[StageFold], held: tuple[Any, ...], stage: int, row: Row) -> tuple[Any, ...]:
    return tuple(
        [fold.added(value, row) if fold.stage == stage else value for fold, value in zip(folds, held, strict=True)]
    )


def save(runs: list[Partial], done: list[Whole]) -> Saved:
    """What must be kept of partial matches: each row once. Their chains have no links in common, each has its own start."""
    events: list[SavedEvent] = []
    nodes: list[SavedNode] = []
    places: dict[int, int] = {}
    saved = []
    for state, tail in [*[(run[0], run[1]) for run in runs], *[(WHOLE, link) for _, link in done]]:
        chain = []
        link = tail
        while link is not None:
            chain.append(link)
            link = link[2]
        chain.reverse()
        before = -1
        for stage, event, _ in chain:
            place = places.get(event[0])
            if place is None:
                place = places[event[0]] = len(events)
                events.append((event[0], event[1], event[2]))
            nodes.append((stage, place, before))
            before = len(nodes) - 1
        saved.append((state, before))
    return events, nodes, saved


def add_whole(done: list[Whole], start: int, link: Link) -> None:
    """Let a whole match wait, in the order of first rows."""
    if not done or done[-1][0] <= start:
        done.append((start, link))
    else:
        bisect.insort(done, (start, link), key=_start)


def _start(whole: Whole) -> int:
    return whole[0]


class Skips:
    """What a match ends beside itself, and what time ends."""

    def __init__(
        self, skip: str, stage: int | None, *, within: int | None, is_given: Sequence[bool], keeps_expired: bool
    ) -> None:
        self._skip, self._stage, self._within = skip, stage, within
        self._is_given, self._keeps_expired = is_given, keeps_expired

    def release(
        self, runs: list[Partial], done: list[Whole], time: int, found: Known
    ) -> tuple[list[Partial], list[Whole]]:
        """Give the matches that nothing earlier can skip any more."""
        while done:
            start, link = done[0]
            gives_all = self._skip == "no_skip"
            if not gives_all and runs and runs[0][2][0] < start:
                break
            found.append((link, time))
            if gives_all:
                done = done[1:]
                continue
            limit = self._limit(start, link)
            runs = [run for run in runs if run[2][0] >= limit]
            done = [match for match in done[1:] if match[0] >= limit]
        return runs, done

    def expire(
        self, runs: list[Partial], done: list[Whole], until: int, found: Known, expired: Known
    ) -> tuple[list[Partial], list[Whole]]:
        """Let time pass, one deadline after the other: what one of them sets free may skip what the next would end."""
        within = self._within
        assert within is not None, "called only where time is limited"
        while runs and (due := runs[0][2][1] + within) <= until:
            gone = [run for run in runs if run[2][1] + within <= due]
            runs = [run for run in runs if run[2][1] + within > due]
            if self._keeps_expired:
                expired += [(run[1], due) for run in gone if not self._is_given[run[0]]]
            if done:
                runs, done = self.release(runs, done, due, found)
        return runs, done

    def _limit(self, start: int, link: Link) -> int:
        """The first row at which a match may begin that counts beside this one."""
        if self._skip == "to_next":
            return start + 1
        if self._skip == "past_last":
            return link[1][0] + 1
        numbers: list[int] = []
        at: Any = link
        while at is not None:
            if at[0] == self._stage:
                numbers.append(at[1][0])
            at = at[2]
        if not numbers:
            return start
        return numbers[-1 if self._skip == "to_first" else 0]


def nth_last(link: Any, stage: int, column: int, missing: int) -> Any:
    """A value of the last row of a stage, or of one so many before it."""
    while link is not None:
        if link[0] == stage:
            if missing == 0:
                return link[1][2][column]
            missing -= 1
        link = link[2]
    return None


def nth_first(link: Any, stage: int, column: int, offset: int, own: Row | None) -> Any:
    """A value of the first row of a stage, or of one so many behind it; `own` is the row under test if it counts."""
    taken = []
    while link is not None:
        if link[0] == stage:
            taken.append(link[1][2])
        link = link[2]
    taken.reverse()
    if own is not None:
        taken.append(own)
    return taken[offset][column] if offset < len(taken) else None


def rows_by_stage(tail: Any, stages: int) -> list[list[Row]]:
    """The rows of a match by stage, in their order."""
    taken: list[list[Row]] = [[] for _ in range(stages)]
    while tail is not None:
        taken[tail[0]].append(tail[1][2])
        tail = tail[2]
    for rows in taken:
        if len(rows) > 1:
            rows.reverse()
    return taken
