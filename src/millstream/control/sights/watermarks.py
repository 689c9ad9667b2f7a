"""How far event time has come at each vertex of a run, and which partitions hold it back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from millstream.control.sights.sight import RunSight
from millstream.model.time import instant_text


def input_watermark(sight: RunSight, vertex: str) -> int | None:
    """The watermark that a vertex follows: its own steps' or the lowest of what comes in; `None` where there is none."""
    newest = sight.newest
    return None if newest is None else _watermark(sight, newest.steps, vertex)


def _watermark(sight: RunSight, marks: Mapping[str, int], vertex: str) -> int | None:
    """A step that states event times decides for all behind it, in its own chain too."""
    steps = next(each["steps"] for each in sight.graph["vertices"] if each["id"] == vertex)
    own = [marks[step["id"]] for step in steps if step["id"] in marks]
    if own:
        return min(own)
    before = [_watermark(sight, marks, edge["source"]) for edge in sight.graph["edges"] if edge["target"] == vertex]
    return min((mark for mark in before if mark is not None), default=None)


def watermarks_of(sight: RunSight, vertex: dict[str, Any]) -> dict[str, Any]:
    """The watermark of a vertex, and of the partitions of each event-time step that it follows."""
    newest, mark = sight.newest, input_watermark(sight, vertex["id"])
    steps = _followed(sight, vertex["id"])
    partitions = [] if newest is None else [each for each in newest.watermarks if each.step in steps]
    return {
        "vertex": vertex["id"],
        "watermark": None if mark is None else instant_text(mark),
        "lag_seconds": None if mark is None or newest is None else lag_seconds(newest.now, mark),
        "steps": {} if newest is None else {step: instant_text(newest.steps[step]) for step in steps},
        "partitions": [{**dataclasses.asdict(each), "watermark": instant_text(each.watermark)} for each in partitions],
    }


def lag_seconds(now: int, mark: int) -> float | None:
    """How far a watermark is behind the clock; before the first event, and at the end of time, nobody knows."""
    return None if instant_text(mark) in ("-", "end") else round((now - mark) / 1000, 3)


def _followed(sight: RunSight, vertex: str) -> list[str]:
    """The event-time steps on the way to a vertex, the nearest on each path."""
    marks = {} if sight.newest is None else sight.newest.steps
    steps = next(each["steps"] for each in sight.graph["vertices"] if each["id"] == vertex)
    own = [step["id"] for step in steps if step["id"] in marks]
    if own:
        return own
    before = [_followed(sight, edge["source"]) for edge in sight.graph["edges"] if edge["target"] == vertex]
    return sorted({step for each in before for step in each})
