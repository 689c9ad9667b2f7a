"""The shared buffer of a key: rows and the chains of partial matches over them, kept once however many matches use them.

A chain node knows the node before it, so partial matches with a common beginning share it. Nodes and rows live as long as
something refers to them: Python counts the references, and what is saved is what can be reached from a partial match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Row = tuple[Any, ...]


class HeldEvent:
    """One row: its number within the key, its time, its values, and what is known about it without any match."""

    __slots__ = ("bits", "cells", "number", "record", "row", "time")

    def __init__(self, number: int, time: int, row: Row, bits: int = 0, cells: tuple[Any, ...] = ()) -> None:
        self.number, self.time, self.row = number, time, row
        self.bits, self.cells = bits, cells
        self.record: dict[str, Any] | None = None


class BufferNode:
    """A row taken into a stage, behind the rows taken before; `folds` are running aggregates that conditions need."""

    __slots__ = ("before", "event", "folds", "stage")

    def __init__(self, stage: int, event: HeldEvent, before: BufferNode | None, folds: tuple[Any, ...] = ()) -> None:
        self.stage, self.event, self.before, self.folds = stage, event, before, folds


class PartialMatch:
    """A partial match: the state it waits in, the last row it took and the first."""

    __slots__ = ("node", "start", "state")

    def __init__(self, state: Any, node: BufferNode, start: HeldEvent) -> None:
        self.state, self.node, self.start = state, node, start


SavedEvent = tuple[int, int, Row]
"""Number, time and values of a row."""
SavedNode = tuple[int, int, int]
"""Stage, place of the row, place of the node before (-1: none)."""
SavedRun = tuple[int, int]
"""State (-1: a whole match that waits) and place of the node."""
Saved = tuple[list[SavedEvent], list[SavedNode], list[SavedRun]]
WHOLE = -1
"""Stands for the state of a whole match in what is saved."""


def save(runs: Iterable[tuple[int, BufferNode]]) -> Saved:
    """What must be kept of partial matches: each row and each node once."""
    events: list[SavedEvent] = []
    nodes: list[SavedNode] = []
    event_places: dict[int, int] = {}
    node_places: dict[int, int] = {}
    saved = []
    for state, tail in runs:
        missing: list[BufferNode] = []
        node: BufferNode | None = tail
        while node is not None and id(node) not in node_places:
            missing.append(node)
            node = node.before
        for fresh in reversed(missing):
            event = fresh.event
            if id(event) not in event_places:
                event_places[id(event)] = len(events)
                events.append((event.number, event.time, event.row))
            before = -1 if fresh.before is None else node_places[id(fresh.before)]
            node_places[id(fresh)] = len(nodes)
            nodes.append((fresh.stage, event_places[id(event)], before))
        saved.append((state, node_places[id(tail)]))
    return events, nodes, saved


def settled(saved: Saved, successors: Mapping[int, int]) -> Saved:
    """What was saved, in states of today: a match that was held back then is a whole one, and goes on from its successor."""
    events, nodes, runs = saved
    owed = [(WHOLE, place) for state, place in runs if state in successors]
    if not owed:
        return saved
    return events, nodes, [*((successors.get(state, state), place) for state, place in runs), *owed]


def rows_of(tail: BufferNode, stages: int) -> list[list[HeldEvent]]:
    """The rows of a match by stage, in their order."""
    taken: list[list[HeldEvent]] = [[] for _ in range(stages)]
    node: BufferNode | None = tail
    while node is not None:
        taken[node.stage].append(node.event)
        node = node.before
    for rows in taken:
        rows.reverse()
    return taken


def first_of(tail: BufferNode) -> HeldEvent:
    """The first row of a chain."""
    node = tail
    while node.before is not None:
        node = node.before
    return node.event
