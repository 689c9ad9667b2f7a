"""The vertices of a run: how busy each is, what passes through it, and the attempts of its subtasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millstream.api.running.subtasks import SubtaskState
from millstream.control.lifecycle.states import Status
from millstream.control.refusals import UnknownName
from millstream.control.sights.sight import RunSight
from millstream.control.sights.watermarks import input_watermark
from millstream.model.counts import StepCounts
from millstream.model.time import instant_text

_LOW, _HIGH = 0.1, 0.5
_ENDED = {
    Status.COMPLETED: SubtaskState.FINISHED,
    Status.SUSPENDED: SubtaskState.FINISHED,
    Status.CANCELLED: SubtaskState.CANCELED,
    Status.FAILED: SubtaskState.FAILED,
    Status.DEAD: SubtaskState.FAILED,
    Status.SCHEDULED: SubtaskState.SCHEDULED,
}
Vertex = Mapping[str, Any]


def vertices_of(sight: RunSight) -> list[dict[str, Any]]:
    """All vertices, from sources to sinks."""
    return [_vertex(sight, each) for each in sight.graph.get("vertices", ())]


def vertex_of(sight: RunSight, uid: str) -> dict[str, Any]:
    """One vertex with its subtasks."""
    found = vertex_named(sight, uid)
    return {**_vertex(sight, found), "subtasks": subtasks_of(sight, uid)}


def subtasks_of(sight: RunSight, uid: str) -> list[dict[str, Any]]:
    """Every subtask of a vertex in the newest epoch: its newest attempt, and what it did."""
    vertex = vertex_named(sight, uid)
    newest = sight.attempts[-1:]
    attempts = {each["subtask"]: each for each in _attempts(newest, vertex)}
    measured = {int(subtask): values for subtask, values in sight.measures.get(vertex["id"], {}).items()}
    return [_subtask(number, attempts, measured) for number in sorted({*attempts, *measured})]


def attempts_of(sight: RunSight, uid: str, subtask: int) -> list[dict[str, Any]]:
    """Every attempt at a subtask in the epochs that are remembered, oldest first.

    Raises:
        UnknownName: (CTL-151) the run goes on nowhere, (CTL-152) there is no such subtask.
    """
    vertex = vertex_named(sight, uid)
    if sight.source == "stored":
        msg = "attempts of subtasks are known while a run goes on"
        raise UnknownName(
            msg, code="CTL-151", found=str(sight.status), hint="see its failures: /v1/runs/{run}/exceptions"
        )
    found = [each for each in _attempts(sight.attempts, vertex) if each["subtask"] == subtask]
    if not found:
        msg = f"vertex {vertex['id']!r} has had no such subtask in the last epochs"
        known = sorted({each["subtask"] for each in _attempts(sight.attempts, vertex)})[:50]
        raise UnknownName(msg, code="CTL-152", found=subtask, known=known, hint="see the subtasks of the vertex")
    return found


def pressure_of(sight: RunSight, uid: str) -> dict[str, Any]:
    """How much of its time a vertex is kept from its next rows by what runs behind it, subtask by subtask."""
    vertex = vertex_named(sight, uid)
    load = _load(sight, vertex)
    blocked, seconds = load["blocked"], sight.newest.seconds if sight.newest is not None else None
    subtasks = []
    for number, values in sorted(sight.measures.get(vertex["id"], {}).items(), key=lambda each: int(each[0])):
        # In the newest epoch alone: what it was blocked is the same for all, and what is left it was idle.
        took = sight.load.vertices.get(vertex["id"])
        shares = _shares(values[0], took.blocked if took is not None else 0.0, seconds or 0.0)
        subtasks.append({"subtask": int(number), "level": level_of(shares["blocked"]), **shares})
    return {"vertex": vertex["id"], "level": level_of(blocked), **load, "subtasks": subtasks}


def level_of(blocked: float | None) -> str | None:
    """In Flink's words."""
    if blocked is None:
        return None
    return "ok" if blocked <= _LOW else "low" if blocked <= _HIGH else "high"


def vertex_named(sight: RunSight, uid: str) -> Vertex:
    """A vertex by its uid, which is that of its first step, or by its id.

    Raises:
        UnknownName: (CTL-153) there is none.
    """
    vertices: Sequence[Vertex] = sight.graph.get("vertices", ())
    for each in vertices:
        if uid in (each["uid"], each["id"]):
            return each
    msg = "the run has no such vertex"
    known = [each["uid"] for each in vertices][:50]
    raise UnknownName(msg, code="CTL-153", found=repr(uid), known=known, hint="a vertex is called like its first step")


def _vertex(sight: RunSight, vertex: Vertex) -> dict[str, Any]:
    attempts = [each for each in _attempts(sight.attempts[-1:], vertex)]
    newest = {each["subtask"]: each["state"] for each in attempts}
    load, mark = _load(sight, vertex), input_watermark(sight, vertex["id"])
    return {
        **{name: vertex[name] for name in ("id", "uid", "name", "level", "parallelism", "is_keyed", "steps")},
        "status": _status(sight, newest.values()),
        "tasks": dict(Counter(newest.values())),
        "load": {**load, "level": level_of(load["blocked"])},
        "rows": _rows(sight, vertex),
        "bytes": _bytes(sight, vertex),
        "watermark": None if mark is None else instant_text(mark),
        "first_error": next((each["error"] for each in _attempts(sight.attempts, vertex) if each["error"]), None),
    }


def _status(sight: RunSight, states: Any) -> str:
    """A vertex of a run that goes on runs, also between two epochs."""
    ended = _ENDED.get(sight.status)
    if ended is not None:
        return ended
    return SubtaskState.FAILED if SubtaskState.FAILED in states else SubtaskState.RUNNING


def _load(sight: RunSight, vertex: Vertex) -> dict[str, Any]:
    """Shares of the time of the window: of the worst subtask, and the mean of all."""
    loads = sight.loads(vertex["id"])
    if not loads:
        return {"busy": None, "blocked": None, "idle": None, "mean_busy": None}
    busy, blocked = sum(each.busy for each, _ in loads), sum(each.blocked for each, _ in loads)
    mean = sum(spent / max(each.subtasks, 1) for each, spent in loads)
    return {**_shares(busy, blocked, sight.span), "mean_busy": round(min(1.0, mean / sight.span), 4)}


def _shares(busy: float, blocked: float, seconds: float) -> dict[str, float]:
    """Three shares whose sum is 1."""
    if seconds <= 0:
        return {"busy": 0.0, "blocked": 0.0, "idle": 1.0}
    at_work = min(1.0, busy / seconds)
    kept = min(1.0 - at_work, blocked / seconds)
    return {"busy": round(at_work, 4), "blocked": round(kept, 4), "idle": round(1.0 - at_work - kept, 4)}


def _rows(sight: RunSight, vertex: Vertex) -> dict[str, Any]:
    """What became of rows in its steps; `dead` were put aside. `in_per_second` is of the window, the rest since the claim."""
    steps = [sight.counts.get(step["id"], StepCounts()) for step in vertex["steps"]]
    outcomes = {name: sum(getattr(each, name) for each in steps) for name in ("filtered", "late", "skipped")}
    passed = sum(load.rows_in for load, _ in sight.loads(vertex["id"]))
    return {
        "in": steps[0].rows_in,
        "out": steps[-1].rows_out,
        **outcomes,
        "dead": sum(each.failed + each.refused for each in steps),
        "in_per_second": round(passed / sight.span, 2) if sight.epochs else None,
    }


def _bytes(sight: RunSight, vertex: Vertex) -> dict[str, int] | None:
    """Of the newest epoch."""
    load = sight.load.vertices.get(vertex["id"])
    return None if load is None else {"in": load.bytes_in, "out": load.bytes_out}


def _attempts(epochs: Sequence[Mapping[str, Any]], vertex: Vertex) -> Iterator[dict[str, Any]]:
    """All vertices of a level run in the same task, so that they share its attempts."""
    for each in epochs:
        for level, subtask, attempt, state, seconds, error in each["attempts"]:
            if level == vertex["level"]:
                told = {"epoch": each["epoch"], "subtask": subtask, "attempt": attempt, "state": state}
                yield {**told, "seconds": seconds, "error": error or None}


def _subtask(
    number: int, attempts: Mapping[int, Mapping[str, Any]], measured: Mapping[int, Sequence[float]]
) -> dict[str, Any]:
    newest, values = attempts.get(number, {}), measured.get(number)
    busy, rows_in, rows_out = values or (None, None, None)
    told = {name: newest.get(name) for name in ("epoch", "attempt", "state", "error")}
    return {"subtask": number, **told, "busy_seconds": busy, "rows_in": rows_in, "rows_out": rows_out}
