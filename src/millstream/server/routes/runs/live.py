"""What only the node of a run knows, asked of it by the node channel."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from millstream.control.dispatcher.stopping import run_of
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.routes.shapes import RunId
from millstream.server.service import NodeChannel

router = APIRouter(tags=["runs"])


class LogShown(BaseModel):
    """Part of a log; `next` is the offset at which to go on."""

    text: str
    next: int
    size: int


class LogNames(BaseModel):
    """The logs of a run."""

    items: list[str]


@router.get("/runs/{run}/progress", **guarded("viewer"), summary="What a run is doing now")
def progress(run: RunId, asking: Asks) -> dict[str, Any]:
    """Rates, lag and the newest epoch, as its driver reports them."""
    return _channel(asking).progress(_id(asking, run))


@router.get("/runs/{run}/graph", **guarded("viewer"), summary="The running graph")
def graph(run: RunId, asking: Asks) -> dict[str, Any]:
    """Vertices, subtasks and attempts with their states."""
    return _channel(asking).graph(_id(asking, run))


@router.get("/runs/{run}/metrics", **guarded("viewer"), summary="Figures of a run")
def run_metrics(run: RunId, asking: Asks) -> list[dict[str, Any]]:
    """As its driver reports them, those that functions of the job made among them (`user_…`)."""
    return _channel(asking).metrics(_id(asking, run))


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
    return LogShown.model_validate(_channel(asking).log(_id(asking, run), stream, start, limit))


@router.get("/runs/{run}/logs/names", **guarded("viewer"), summary="The logs of a run")
def log_names(run: RunId, asking: Asks) -> LogNames:
    """What there is for `stream`, with the ending `.log`."""
    return LogNames(items=_channel(asking).logs(_id(asking, run)))


@router.post("/runs/{run}/dump", **guarded("operator"), summary="The stacks of a run's driver")
def dump(run: RunId, asking: Asks) -> dict[str, Any]:
    """What its threads are doing."""
    identifier = _id(asking, run)
    with asking.acting() as act:
        asking.audit(act, "run.dump", identifier)
    return _channel(asking).dump(identifier)


def _channel(asking: Asking) -> NodeChannel:
    channel = asking.service.channel
    assert channel is not None, "these routes are there only with a channel"
    return channel


def _id(asking: Asking, run: str) -> str:
    with asking.reading() as act:
        identifier: str = run_of(act, run).execution_id
    return identifier
