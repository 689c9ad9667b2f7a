"""Connectors: what there is, what each takes and promises, and a first look at one."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from millstream.control.dispatcher.trying import looked_apart
from millstream.control.secrets.named import named_values, refuse_missing
from millstream.inspect.connectors.facts import ConnectorFacts, connector_facts, known_connectors
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.refusing import refuse_for_now
from millstream.server.routes.shapes import Body

router = APIRouter(tags=["connectors"])
ConnectorName = Annotated[str, Path(min_length=1, max_length=64, description="The connector.")]
_LOOKS = threading.BoundedSemaphore(3)
"""Looks that this process takes at the same time: each is a process of its own."""
_JOB, _STEP = "connector-test", "tested"


class ConnectorSummary(BaseModel):
    """A connector in a list."""

    name: str
    package: str | None
    """The package that brings it, if it is not ours."""
    source: list[str]
    """What it can promise as a source, the best first; empty if it is none."""
    sink: list[str]
    mode: str | None
    extras: list[dict[str, Any]]
    problem: str | None
    """Why it cannot be used here."""


class ConnectorOption(BaseModel):
    """One option, as a form needs it."""

    name: str
    type: str
    default: Any
    required: bool
    choices: list[Any]
    may_hold_secrets: bool
    doc: str


class ConnectorPromise(BaseModel):
    """What one side promises with some options, and how it keeps each guarantee."""

    role: str
    options: dict[str, Any]
    capability: str
    guarantees: dict[str, str]


class ConnectorShown(ConnectorSummary):
    """All of a connector."""

    options: dict[str, list[ConnectorOption]]
    promises: list[ConnectorPromise]


class ConnectorList(BaseModel):
    """All connectors."""

    items: list[ConnectorSummary]


class LookBody(Body):
    """The side of a connector to look at, with its options as a job file has them."""

    role: Literal["source", "sink"] = "source"
    options: dict[str, Any]
    columns: Annotated[Any, Field(alias="schema")] = None
    """As in a job file; a sink needs it."""
    rows: Annotated[int, Field(ge=1, le=50)] = 5
    seconds: Annotated[float, Field(gt=0, le=30)] = 10.0
    model_config = ConfigDict(
        json_schema_extra={"example": {"options": {"rows_per_second": 10, "rows": 3}, "rows": 3}}, extra="forbid"
    )


class LookShown(BaseModel):
    """What a first look has shown; nothing was kept, changed or acknowledged."""

    connector: str
    role: str
    took: float
    """Seconds."""
    seen: dict[str, Any]
    """Of a source `rows`, `bad`, `lag`, `partitions` and others; of a sink what it `found`, and whether it could be looked at."""


@router.get("/connectors", **guarded("viewer"), summary="List connectors")
def list_connectors(asking: Asks) -> ConnectorList:
    """Those that jobs may name here: ours, and those of other packages."""
    return ConnectorList(items=[ConnectorSummary(**_summary(each)) for each in known_connectors()])


@router.get("/connectors/{name}", **guarded("viewer"), summary="Get a connector")
def get_connector(name: ConnectorName, asking: Asks) -> ConnectorShown:
    """Its options with types, defaults and choices, and what it promises with which of them."""
    facts = _facts(name)
    options: dict[str, list[ConnectorOption]] = {
        role: [ConnectorOption(required=each.is_required, **_plain(dataclasses.asdict(each))) for each in of_role]
        for role, of_role in facts.options.items()
    }
    promises = [ConnectorPromise.model_validate(dataclasses.asdict(each)) for each in facts.promises]
    return ConnectorShown(**_summary(facts), options=options, promises=promises)


@router.post("/connectors/{name}/test", **guarded("editor"), summary="Take a first look at a connector")
def test_connector(name: ConnectorName, body: LookBody, asking: Asks) -> LookShown:
    """The first rows of a source, or whether a sink could write; seen from the server, in a process of its own.

    The rules are those of jobs that are data: what a job file may not reach is refused, and secrets are named, `${secret:NAME}`.
    """
    _facts(name)
    definition = {"kind": "declarative", "document": _document(name, body)}
    planned = asking.service.planner(definition, code=None, parallelism=1)
    secrets = _secrets(asking, planned.secrets)
    if not _LOOKS.acquire(blocking=False):
        refuse_for_now("REST-041", "too many connectors are looked at", hint="wait for the others", wait=5)
    try:
        with asking.acting() as act:
            asking.audit(act, "connector.test", name, after={"role": body.role, "secrets": planned.secrets})
        begun = time.monotonic()
        how: dict[str, Any] = {"rows": body.rows, "seconds": body.seconds, "reach": asking.service.reach}
        seen = looked_apart(definition, _STEP, secrets=secrets, **how)
    finally:
        _LOOKS.release()
    return LookShown(connector=name, role=body.role, took=round(time.monotonic() - begun, 3), seen=seen)


def _facts(name: str) -> ConnectorFacts:
    known = next((each for each in known_connectors() if each.name == name), None)
    if known is None or known.problem is not None:
        return connector_facts(name)  # says what is wrong
    return known


def _document(name: str, body: LookBody) -> dict[str, Any]:
    """The smallest job that has such a step; it promises nothing, so that every connector may stand in it."""
    schema = {} if body.columns is None else {"schema": body.columns}
    given = {name: body.options}
    if body.role == "source":
        steps = [{"source": _STEP, "from": given, **schema}, {"sink": "beside", "to": {"print": {}}}]
    else:
        steps = [{"source": "beside", "from": {"memory": {"rows": []}}, **schema}, {"sink": _STEP, "to": given}]
    return {"job": _JOB, "guarantee": "best_effort", "steps": steps}


def _secrets(asking: Asking, names: list[str]) -> dict[str, str]:
    keys = asking.service.keys
    with asking.reading() as act:
        values = {} if keys is None or not names else named_values(act.connection, keys, names)
    refuse_missing(names, values)
    return values


def _summary(facts: ConnectorFacts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "package": facts.package,
        "source": facts.capabilities("source"),
        "sink": facts.capabilities("sink"),
        "mode": facts.mode,
        "extras": [dataclasses.asdict(extra) for extra in facts.extras],
        "problem": facts.problem,
    }


def _plain(option: dict[str, Any]) -> dict[str, Any]:
    """Defaults that JSON has no form for are shown as they are written."""
    return {**option, "default": json.loads(json.dumps(option["default"], default=repr))}
