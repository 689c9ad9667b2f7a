"""The vertices of a run: load, rows, watermarks, and the attempts of their subtasks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel

from millstream.control.sights.progress import holder_of
from millstream.control.sights.vertices import (
    attempts_of,
    pressure_of,
    subtasks_of,
    vertex_named,
    vertex_of,
    vertices_of,
)
from millstream.control.sights.watermarks import watermarks_of
from millstream.server.asking import Asks, guarded
from millstream.server.routes.runs.seeing import sight_of
from millstream.server.routes.shapes import RunId

router = APIRouter(tags=["runs"])
Uid = Annotated[str, Path(min_length=1, max_length=400, description="The vertex: the uid of its first step.")]


class LoadShown(BaseModel):
    """Shares of the last ten seconds; busy, blocked and idle are those of the worst subtask, and their sum is 1."""

    busy: float | None
    blocked: float | None
    idle: float | None
    mean_busy: float | None
    level: str | None = None


class VertexShown(BaseModel):
    """One vertex: steps that run as one."""

    id: str
    uid: str
    name: str
    level: int
    parallelism: int | None
    is_keyed: bool
    steps: list[dict[str, Any]]
    status: str
    tasks: dict[str, int]
    load: LoadShown
    rows: dict[str, Any]
    bytes: dict[str, int] | None
    watermark: str | None
    first_error: str | None


class SubtaskShown(BaseModel):
    """The newest attempt at a subtask, and what it did in the newest epoch."""

    subtask: int
    epoch: int | None
    attempt: int | None
    state: str | None
    error: str | None
    busy_seconds: float | None
    rows_in: int | None
    rows_out: int | None


class AttemptShown(BaseModel):
    """One attempt at a subtask."""

    epoch: int
    subtask: int
    attempt: int
    state: str
    seconds: float | None
    error: str | None


class WholeVertex(VertexShown):
    """A vertex with its subtasks."""

    subtasks: list[SubtaskShown]


class VertexList(BaseModel):
    """All vertices, and what holds the job back."""

    source: str
    items: list[VertexShown]
    holder: dict[str, Any] | None


class SubtaskList(BaseModel):
    """The subtasks of a vertex."""

    items: list[SubtaskShown]


class AttemptList(BaseModel):
    """The attempts at a subtask, oldest first."""

    items: list[AttemptShown]


class PressureShown(LoadShown):
    """Back-pressure of a vertex: `ok` up to 10 % of the time blocked, `low` up to 50 %, `high` above."""

    vertex: str
    subtasks: list[dict[str, Any]]


class WatermarksShown(BaseModel):
    """How far event time has come at a vertex."""

    vertex: str
    watermark: str | None
    lag_seconds: float | None
    steps: dict[str, str]
    partitions: list[dict[str, Any]]


@router.get("/runs/{run}/vertices", **guarded("viewer"), summary="The vertices of a run")
def list_vertices(run: RunId, asking: Asks) -> VertexList:
    """From sources to sinks, each with its load, its rows and its watermark; and the step that holds the job back.

    Of a run that has ended, what is stored of its last epochs (`source` is `stored`).
    """
    sight = sight_of(asking, run)
    found = {"source": sight.source, "items": vertices_of(sight), "holder": holder_of(sight)}
    return VertexList.model_validate(found)


@router.get("/runs/{run}/vertices/{uid}", **guarded("viewer"), summary="One vertex of a run")
def get_vertex(run: RunId, uid: Uid, asking: Asks) -> WholeVertex:
    """A vertex with its subtasks."""
    return WholeVertex.model_validate(vertex_of(sight_of(asking, run), uid))


@router.get("/runs/{run}/vertices/{uid}/subtasks", **guarded("viewer"), summary="The subtasks of a vertex")
def list_subtasks(run: RunId, uid: Uid, asking: Asks) -> SubtaskList:
    """In the newest epoch; none once the run has ended."""
    return SubtaskList.model_validate({"items": subtasks_of(sight_of(asking, run), uid)})


@router.get(
    "/runs/{run}/vertices/{uid}/subtasks/{subtask}/attempts",
    **guarded("viewer"),
    summary="The attempts at a subtask",
)
def list_attempts(
    run: RunId, uid: Uid, subtask: Annotated[int, Path(ge=0, le=2**31, description="Its number.")], asking: Asks
) -> AttemptList:
    """In the last twenty epochs, with Flink's states, while the run goes on; failures of runs are kept as exceptions."""
    return AttemptList.model_validate({"items": attempts_of(sight_of(asking, run), uid, subtask)})


@router.get("/runs/{run}/vertices/{uid}/backpressure", **guarded("viewer"), summary="Back-pressure of a vertex")
def get_backpressure(run: RunId, uid: Uid, asking: Asks) -> PressureShown:
    """How much of its time what runs behind it keeps it from its next rows; subtasks are those of the newest epoch."""
    return PressureShown.model_validate(pressure_of(sight_of(asking, run), uid))


@router.get("/runs/{run}/vertices/{uid}/watermarks", **guarded("viewer"), summary="Watermarks of a vertex")
def get_watermarks(run: RunId, uid: Uid, asking: Asks) -> WatermarksShown:
    """The watermark that it follows, with the partitions that it comes from."""
    sight = sight_of(asking, run)
    return WatermarksShown.model_validate(watermarks_of(sight, dict(vertex_named(sight, uid))))
