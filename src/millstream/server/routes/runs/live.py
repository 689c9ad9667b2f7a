"""What only the node of a run knows, asked of it by the node channel."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from millstream.control.sights.choosing import aggregated, chosen
from millstream.control.sights.progress import progress_of
from millstream.server.asking import Asks, guarded
from millstream.server.routes.runs.seeing import channel_of, run_id, sight_of
from millstream.server.routes.shapes import RunId

router = APIRouter(tags=["runs"])


class LogShown(BaseModel):
    """Part of a log; `next` is the offset at which to go on."""

    text: str
    next: int
    size: int


class LogNames(BaseModel):
    """The logs of a run."""

    items: list[str]


Names = Annotated[str, Query(max_length=2000, description="Names, with commas.")]


@router.get("/runs/{run}/progress", **guarded("viewer"), summary="How far a run is, and what holds it back")
def progress(run: RunId, asking: Asks) -> dict[str, Any]:
    """Rates, lag by partition, the watermark and who holds it, the step that holds the job back, the newest reports.

    `source` says whether its node told it, or whether it is what was stored of a run that has ended.
    """
    return progress_of(sight_of(asking, run))


@router.get("/runs/{run}/graph", **guarded("viewer"), summary="The running graph")
def graph(run: RunId, asking: Asks) -> dict[str, Any]:
    """Vertices and edges, and the attempts of subtasks in the last epochs."""
    sight = sight_of(asking, run)
    return {**sight.graph, "source": sight.source, "subtasks": list(sight.attempts)}


@router.get("/runs/{run}/metrics", **guarded("viewer"), summary="Figures of a run")
def run_metrics(run: RunId, asking: Asks, *, get: Names = "", agg: Names = "") -> list[dict[str, Any]]:
    """As its driver reports them, those that functions of the job made among them (`user_…`).

    `get` names some of them; `agg` (`min`, `max`, `avg`, `sum`) gives one value for all samples of a name.
    """
    figures = chosen(channel_of(asking).metrics(run_id(asking, run)), _listed(get))
    return aggregated(figures, _listed(agg)) if agg else figures


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


@router.get("/runs/{run}/logs", **guarded("viewer"), summary="Part of a log of a run")
def logs(
    run: RunId,
    asking: Asks,
    *,
    stream: Annotated[str, Query(pattern=r"^[A-Za-z0-9_-]{1,40}$", description="Which process.")] = "driver",
    start: Annotated[int, Query(alias="from", ge=0, le=2**62, description="Offset in bytes.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1024 * 1024, description="Bytes at most.")] = 65536,
) -> LogShown:
    """Text from an offset on."""
    return LogShown.model_validate(channel_of(asking).log(run_id(asking, run), stream, start, limit))


@router.get("/runs/{run}/logs/names", **guarded("viewer"), summary="The logs of a run")
def log_names(run: RunId, asking: Asks) -> LogNames:
    """What there is for `stream`, with the ending `.log`."""
    return LogNames(items=channel_of(asking).logs(run_id(asking, run)))


@router.post("/runs/{run}/dump", **guarded("operator"), summary="The stacks of a run's driver")
def dump(run: RunId, asking: Asks) -> dict[str, Any]:
    """What its threads are doing."""
    identifier = run_id(asking, run)
    with asking.acting() as act:
        asking.audit(act, "run.dump", identifier)
    return channel_of(asking).dump(identifier)
