"""Definitions as they come in: checked, compiled by the planner, and only then written."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from millstream.control.act import Act
from millstream.control.artifacts.rows import ready_artifact
from millstream.control.artifacts.store import unknown_artifact
from millstream.control.artifacts.unpack import unpack
from millstream.control.dispatcher.definitions import Submission
from millstream.control.secrets.config import set_setting
from millstream.control.secrets.key_ring import KeyRing
from millstream.control.secrets.written import refuse_written
from millstream.control.settings import settings_of
from millstream.control.tuning import beyond_tuning
from millstream.errors import InvalidStep
from millstream.server.asking import Asking, short_enough
from millstream.server.routes.jobs.config import ConfigBody, entry_of
from millstream.server.routes.shapes import Body

EXAMPLE: dict[str, Any] = {
    "dag_definition": {
        "job": "orders",
        "steps": [
            {"source": "rows", "from": {"files": {"path": "/data/in", "format": "json"}}, "schema": "n long"},
            {"sink": "out", "to": {"files": {"path": "/data/out"}}},
        ],
    },
    "settings": {"engine": "local"},
}


class JobBody(Body):
    """A job to be submitted.

    `dag_definition` is a job file as JSON: its steps, or `source`, `operators` and `sink`; or
    `{"kind": "code", "entry": "orders.py:job"}` for a job written in Python, which comes in an artifact.
    """

    name: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    type: Literal["STREAMING", "BATCH_ROLLER", "SQL_TASK"] | None = None
    dag_definition: dict[str, Any]
    parallelism: Annotated[int | None, Field(ge=1, le=32768)] = None
    settings: dict[str, Any] = {}
    config: dict[str, ConfigBody] = {}
    artifact: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$")] = None
    description: Annotated[str | None, Field(max_length=4000)] = None
    max_retry_times: Annotated[int, Field(ge=0, le=1000)] = 3
    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})


def submission_of(asking: Asking, body: JobBody) -> Submission:
    """The job, compiled; nothing is written yet.

    Raises:
        RequestRefused: (REST-011) code needs an author, and so do settings that do more than tune a run.
        InvalidStep: (CTL-316) a password is written in it, (REST-028) the definition names another job or type than the request.
        MillstreamError: what is wrong with the job itself.
    """
    definition = _definition(body)
    if definition["kind"] == "code":
        asking.demand("author", "a job with code")
    settings = settings_of(body.settings)
    for what in beyond_tuning(settings):
        asking.demand("author", what)
    refuse_written(definition, settings.confs)
    planned = asking.service.planner(definition, code=_code(asking, body), parallelism=body.parallelism)
    short_enough("the name of the job", planned.name, 128)
    _refuse_other("name", body.name, planned.name)
    _refuse_other("type", body.type, planned.mode)
    return Submission(
        planned=planned,
        definition=definition,
        settings=settings,
        parallelism=body.parallelism,
        max_retry_times=body.max_retry_times,
        description=body.description,
        artifact=body.artifact,
    )


def settle(asking: Asking, act: Act, job_id: int, body: JobBody) -> None:
    """What belongs to the job beside its definition, in the same transaction.

    Raises:
        UnknownName: (CTL-358) its artifact was removed in the meantime.
    """
    if body.artifact is not None:
        ready_artifact(act.connection, body.artifact)
    for key, setting in body.config.items():
        set_setting(act.connection, _keys(asking), job_id, entry_of(key, setting))


def _keys(asking: Asking) -> KeyRing:
    if asking.service.keys is None:
        msg = "this service keeps no settings"
        raise InvalidStep(msg, code="REST-035", hint="start it with keys")
    return asking.service.keys


def _code(asking: Asking, body: JobBody) -> str | None:
    """The folder of the job's code, unpacked for the process that compiles it."""
    return None if body.artifact is None else unpacked_code(asking, body.artifact)


def unpacked_code(asking: Asking, artifact: str) -> str:
    """The folder of an artifact's code.

    Raises:
        UnknownName: (CTL-358) there is no such artifact.
    """
    store, folder = asking.service.artifacts, asking.service.unpacked
    if store is None or folder is None:
        raise unknown_artifact(artifact)
    unpack(store, artifact, folder / artifact)
    return str(folder / artifact)


def _definition(body: JobBody) -> dict[str, Any]:
    given = body.dag_definition
    if given.get("kind") == "code":
        return given
    document = dict(given.get("document", {})) if given.get("kind") == "declarative" else dict(given)
    if body.name is not None and "job" not in document and "name" not in document:
        document["job"] = body.name
    return {"kind": "declarative", "document": document}


def _refuse_other(what: str, told: str | None, found: str) -> None:
    if told is not None and told != found:
        msg = f"the definition has another {what} than the request"
        raise InvalidStep(
            msg, code="REST-028", found=repr(found), known=repr(told), hint="say the same, or leave it out"
        )
