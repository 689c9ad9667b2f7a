"""What the service is and how it does: probes, its version, numbers at a glance, and its own description."""

from __future__ import annotations

import datetime as dt
import platform
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from sqlalchemy import func, select

from millstream import __version__
from millstream.control.act import Act
from millstream.control.lifecycle.states import OWNED
from millstream.control.metadata import migrate
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.nodes import node
from millstream.control.metadata.tables.runs import execution
from millstream.server.asking import Asks, guarded, unguarded
from millstream.server.service import Service

router = APIRouter(tags=["service"])
_PARTS = ("channel", "keys", "artifacts", "checkpoints", "figures")


class Alive(BaseModel):
    """No more than that: the probe is open."""

    status: str = "ok"


class ServiceInfo(BaseModel):
    """What answers here."""

    version: str
    python: str
    database: str
    revision: str | None
    """Of the schema."""
    parts: list[str]
    """What this service has beside jobs and runs."""
    time: dt.datetime
    started: dt.datetime
    """The process that answers; behind one address there may be several."""
    you: str
    role: str


class SlotCount(BaseModel):
    """Slots of nodes that take runs."""

    total: int
    used: int


class Overview(BaseModel):
    """The service at a glance."""

    jobs: int
    runs: dict[str, int]
    """Runs that have not ended, by status, and the ends of the last day."""
    nodes: dict[str, int]
    slots: SlotCount


@router.get("/health", **unguarded(), summary="Whether the process lives")
async def health() -> Alive:
    """Whether the process answers; it asks nobody else."""
    return Alive()


@router.get("/ready", **unguarded(), summary="Whether the service can work")
def ready(request: Request) -> Alive:
    """Whether the database answers and has the schema of this version; 503 where it is away."""
    service: Service = request.app.state.service
    migrate.check(service.metadata)
    return Alive()


@router.get("/info", **guarded("viewer"), summary="Version, database and who you are")
def info(asking: Asks) -> ServiceInfo:
    """What answers here, and who it takes you for."""
    with asking.reading() as act:
        now, revision = act.now, migrate.revision_of(act.connection)
    service = asking.service
    return ServiceInfo(
        version=__version__,
        python=platform.python_version(),
        database=service.metadata.url.kind,
        revision=revision,
        parts=[name for name in _PARTS if getattr(service, name) is not None],
        time=now,
        started=service.started,
        you=asking.caller.name,
        role=asking.caller.role,
    )


@router.get("/overview", **guarded("viewer"), summary="Jobs, runs, nodes and slots in numbers")
def overview(asking: Asks) -> Overview:
    """Numbers of everything that goes on."""
    with asking.reading() as act:
        jobs = select(func.count()).select_from(job_definition).where(job_definition.c.deleted_time.is_(None))
        return Overview(
            jobs=act.connection.execute(jobs).scalar_one(), runs=_runs(act), nodes=_nodes(act), slots=_slots(act)
        )


@router.get("/openapi.json", **guarded("viewer"), summary="This interface, described")
def openapi(asking: Asks, request: Request) -> dict[str, Any]:
    """The OpenAPI document of the routes that this service has."""
    described: dict[str, Any] = request.app.openapi()
    return described


def _runs(act: Act) -> dict[str, int]:
    lately = act.now - dt.timedelta(days=1)
    counted = select(execution.c.status, func.count()).where(
        (execution.c.end_time.is_(None)) | (execution.c.end_time > lately)
    )
    return {row[0]: row[1] for row in act.connection.execute(counted.group_by(execution.c.status))}


def _nodes(act: Act) -> dict[str, int]:
    return {row[0]: row[1] for row in act.connection.execute(select(node.c.state, func.count()).group_by(node.c.state))}


def _slots(act: Act) -> SlotCount:
    total = select(func.coalesce(func.sum(node.c.slots), 0)).where(node.c.state != "GONE")
    used = select(func.count()).select_from(execution).where(execution.c.status.in_(OWNED))
    return SlotCount(
        total=int(act.connection.execute(total).scalar_one()), used=act.connection.execute(used).scalar_one()
    )
