"""Versions of a job: what each was, what its plan is, and what changed between two."""

from __future__ import annotations

import datetime as dt
import difflib
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from sqlalchemy import Row, select

from millstream.control.act import Act
from millstream.control.dispatcher.definitions import job_of, version_of
from millstream.control.metadata.tables.jobs import job_version
from millstream.server.asking import Asks, guarded
from millstream.server.paging import Cursor, Keyset, Page, PageSize
from millstream.server.routes.shapes import Name

router = APIRouter(tags=["jobs"])
_NEWEST_FIRST = Keyset(job_version.c.version, downwards=True)
Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="The version.")]
Layer = Annotated[Literal["stream", "job", "partitioned", "deployment"], Query(description="A layer of the plan.")]


class VersionShown(BaseModel):
    """A definition as it was submitted."""

    version: int
    fingerprint: str
    parallelism: int | None
    artifact: str | None
    settings: dict[str, Any]
    dag_definition: dict[str, Any]
    create_time: dt.datetime
    created_by: str


class PlanShown(BaseModel):
    """A layer of the plan: as text, as a Mermaid flowchart, and as JSON for programs."""

    version: int
    layer: str
    text: str
    chart: str
    plan: Any


class VersionDiff(BaseModel):
    """What changed from one version to another."""

    before: int
    after: int
    same_fingerprint: bool
    settings: dict[str, Any]
    """Settings that differ, with both values."""
    diff: str
    """The definitions as a unified diff."""


@router.get("/jobs/{name}/versions", **guarded("viewer"), summary="List the versions of a job")
def list_versions(name: Name, asking: Asks, *, limit: PageSize = 100, cursor: Cursor = None) -> Page[VersionShown]:
    """Newest first."""
    with asking.reading() as act:
        found = select(job_version).where(job_version.c.job_id == job_of(act, name).id)
        return _NEWEST_FIRST.page(act, asking, found, _shown, limit=limit, cursor=cursor)


@router.get("/jobs/{name}/versions/{number}", **guarded("viewer"), summary="Get a version of a job")
def get_version(name: Name, number: Number, asking: Asks) -> VersionShown:
    """One version, as it was submitted."""
    with asking.reading() as act:
        return _shown(version_of(act, job_of(act, name).id, number))


@router.get("/jobs/{name}/versions/{number}/diff", **guarded("viewer"), summary="Compare two versions of a job")
def diff_versions(
    name: Name,
    number: Number,
    asking: Asks,
    *,
    against: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="By default the version before.")] = None,
) -> VersionDiff:
    """What changed from `against` to this version."""
    with asking.reading() as act:
        job = job_of(act, name)
        after = version_of(act, job.id, number)
        before = version_of(act, job.id, against or max(1, number - 1))
    return _difference(before, after)


@router.get("/jobs/{name}/plan", **guarded("viewer"), summary="Get the plan of a job")
def get_plan(name: Name, asking: Asks, *, layer: Layer = "partitioned") -> PlanShown:
    """A layer of the newest version's plan."""
    with asking.reading() as act:
        job = job_of(act, name)
        return _plan(act, job.id, job.version, layer)


@router.get("/jobs/{name}/versions/{number}/plan", **guarded("viewer"), summary="Get the plan of a version")
def get_version_plan(name: Name, number: Number, asking: Asks, *, layer: Layer = "partitioned") -> PlanShown:
    """A layer of one version's plan."""
    with asking.reading() as act:
        return _plan(act, job_of(act, name).id, number, layer)


def _plan(act: Act, job_id: int, number: int, layer: str) -> PlanShown:
    version = version_of(act, job_id, number)
    plan = version.plan or {}
    texts = {name: plan.get(part, {}).get(layer, "") for name, part in (("text", "texts"), ("chart", "charts"))}
    return PlanShown(version=number, layer=layer, plan=plan.get("layers", {}).get(layer), **texts)


def _difference(before: Row[Any], after: Row[Any]) -> VersionDiff:
    names = sorted({*before.settings, *after.settings})
    both = {name: [before.settings.get(name), after.settings.get(name)] for name in names}
    old, new = f"version {before.version}", f"version {after.version}"
    lines = difflib.unified_diff(_lines(before), _lines(after), old, new, lineterm="")
    return VersionDiff(
        before=before.version,
        after=after.version,
        same_fingerprint=before.fingerprint == after.fingerprint,
        settings={name: values for name, values in both.items() if values[0] != values[1]},
        diff="\n".join(lines),
    )


def _lines(version: Row[Any]) -> list[str]:
    return json.dumps(version.dag_definition, indent=2, sort_keys=True, ensure_ascii=False).splitlines()


def _shown(row: Row[Any]) -> VersionShown:
    return VersionShown(
        version=row.version,
        fingerprint=row.fingerprint,
        parallelism=row.parallelism,
        artifact=row.artifact_sha256,
        settings=row.settings,
        dag_definition=row.dag_definition,
        create_time=row.create_time,
        created_by=row.created_by,
    )
