"""What is in savepoints: their records, whether their files are sound and a job fits them, and how two differ."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Row

from millstream.checkpoint.savepoint import Savepoint
from millstream.control.act import Act
from millstream.control.dispatcher.definitions import job_of, version_of
from millstream.control.dispatcher.verifying import VERIFY
from millstream.control.nodes.savepoint_calls import record_at
from millstream.control.operations import open_operation
from millstream.control.refusals import StateConflict
from millstream.errors import InvalidStep
from millstream.inspect.savepoint_diff import diff_savepoints
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.idempotency import ActAnswer, once
from millstream.server.routes.jobs.submitting import unpacked_code
from millstream.server.routes.shapes import Body, OperationOpened
from millstream.server.routes.stored.savepoints import SavepointId, savepoint_row

router = APIRouter(tags=["savepoints"])
records_router = APIRouter(tags=["savepoints"])
"""Only nodes see the files: without a way to ask them there are no such routes."""
Compared = Annotated[int, Query(ge=1, le=2**62, description="The number of a savepoint.")]


class VerifyBody(Body):
    """What a savepoint is verified against: a job tells whether its version could start from it."""

    job: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    version: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    parallelism: Annotated[int | None, Field(ge=1, le=32768)] = None
    allow_dropped_state: bool = False
    model_config = ConfigDict(json_schema_extra={"example": {}})


class StepDiff(BaseModel):
    """One keyed step in two savepoints."""

    uid: str
    presence: str
    entries: list[int]
    layout: list[str]


class SavepointDiff(BaseModel):
    """Two savepoints side by side; pairs are `[a, b]`."""

    general: dict[str, list[Any]]
    steps: list[StepDiff]
    sources: dict[str, list[Any]]
    watermarks: dict[str, list[Any]]


@records_router.get("/savepoints/diff", **guarded("viewer"), summary="Compare two savepoints")
def diff(a: Compared, b: Compared, asking: Asks) -> SavepointDiff:
    """Steps, layouts, entries, source positions and watermarks, from their records alone."""
    difference = diff_savepoints(_record(asking, a), _record(asking, b))
    return SavepointDiff.model_validate(msgspec.to_builtins(difference))


@records_router.get("/savepoints/{savepoint}/record", **guarded("viewer"), summary="Get the record of a savepoint")
def get_record(savepoint: SavepointId, asking: Asks) -> dict[str, Any]:
    """Everything that its `savepoint.json` says: positions, layouts and files, without any state."""
    shown: dict[str, Any] = msgspec.to_builtins(_record(asking, savepoint), str_keys=True)
    return shown


@router.post(
    "/savepoints/{savepoint}/verify",
    status_code=202,
    response_model=OperationOpened,
    **guarded("operator"),
    summary="Verify a savepoint, also against a version of a job",
)
def verify(savepoint: SavepointId, body: VerifyBody, asking: Asks) -> Response:
    """Read every file and compare it with the record; with `job`, also say whether that job could start from it.

    The operation's `compatibility` has a verdict for each step, as a start would judge it (`identical`, `compatible`, `new`,
    `dropped`, `incompatible` with the field), whether such a start is possible, and what stands in its way.
    """
    shape = _shape(asking, body)

    def effect(act: Act) -> ActAnswer:
        row = _ready(savepoint_row(act, savepoint))
        wish = {"path": row.path, "allow_dropped_state": body.allow_dropped_state, **shape}
        identifier = open_operation(act, VERIFY, f"savepoint:{row.id}", asking.asked, **wish)
        asking.audit(act, "savepoint.verify", str(row.id), after={"job": body.job, "version": shape["version"]})
        return ActAnswer(202, OperationOpened(operation=identifier), f"/v1/operations/{identifier}", is_operation=True)

    return once(asking, effect)


def _shape(asking: Asking, body: VerifyBody) -> dict[str, Any]:
    """What the version of the job keeps; compiled again where its plan does not say it, or not for that parallelism."""
    none = {"job": None, "version": None, "parallelism": None, "engine": None, "shape": None}
    if body.job is None:
        if body.version is not None or body.parallelism is not None:
            msg = "a version and a parallelism are those of a job"
            raise InvalidStep(msg, code="REST-040", found="no job", hint="name the job too")
        return none
    with asking.reading() as act:
        job = job_of(act, body.job)
        version = version_of(act, job.id, body.version or job.version)
    parallelism = body.parallelism or version.parallelism
    shape = (version.plan or {}).get("shape") if body.parallelism in (None, version.parallelism) else None
    shape = shape or _compiled(asking, version, parallelism)
    named = {"job": body.job, "version": version.version, "engine": version.settings["engine"]}
    return {**named, "parallelism": shape["parallelism"], "shape": shape}


def _compiled(asking: Asking, version: Row[Any], parallelism: int | None) -> Any:
    code = None if version.artifact_sha256 is None else unpacked_code(asking, version.artifact_sha256)
    return asking.service.planner(version.dag_definition, code=code, parallelism=parallelism).shape


def _record(asking: Asking, identifier: int) -> Savepoint:
    with asking.reading() as act:
        _ready(savepoint_row(act, identifier))
    return record_at(asking.service.metadata, identifier)


def _ready(row: Row[Any]) -> Row[Any]:
    if row.status != "READY":
        msg = "the savepoint was disposed of"
        raise StateConflict(msg, code="REST-033", found=row.status, hint="take another one")
    return row
