"""Artifacts: code of jobs, uploaded as a zip or wheel and named by its sha256."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from millstream.control.artifacts.rows import (
    ArtifactRow,
    delete_artifact,
    keep_artifact,
    listed_artifacts,
    ready_artifact,
)
from millstream.control.artifacts.store import ArtifactStore, Upload
from millstream.server.asking import Asking, Asks, guarded

router = APIRouter(tags=["artifacts"])
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The artifact's sha256.")]
_PIECE = 1 << 20


class ArtifactShown(BaseModel):
    """An artifact."""

    sha256: str
    name: str
    size: int
    kind: str
    create_time: dt.datetime
    created_by: str


class ArtifactList(BaseModel):
    """All artifacts."""

    items: list[ArtifactShown]


_UPLOAD = guarded("author")
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_UPLOAD["openapi_extra"] |= {"requestBody": {"required": True, "content": {"application/octet-stream": _BINARY}}}


@router.post("/artifacts", status_code=201, response_model=ArtifactShown, **_UPLOAD, summary="Upload code")
async def upload_artifact(
    request: Request,
    asking: Asks,
    *,
    name: Annotated[str, Query(max_length=255, description="As `orders.zip` or `orders-1.0-py3-none-any.whl`.")],
) -> JSONResponse:
    """The body is the archive, at most 256 MiB; 200 says that it was known."""
    store = asking.service.artifacts
    assert store is not None, "these routes are there only with a store"
    upload = await run_in_threadpool(store.receive, name)
    try:
        await _received(request, upload)
        return await run_in_threadpool(_kept, asking, store, upload)
    finally:
        await run_in_threadpool(upload.__exit__, None, None, None)


async def _received(request: Request, upload: Upload) -> None:
    """Written in large pieces by a thread: disks are slower than the event loop."""
    waiting = bytearray()
    async for piece in request.stream():
        waiting += piece
        if len(waiting) >= _PIECE:
            await run_in_threadpool(upload.write, bytes(waiting))
            waiting.clear()
    await run_in_threadpool(upload.write, bytes(waiting))


def _kept(asking: Asking, store: ArtifactStore, upload: Upload) -> JSONResponse:
    upload.finish()
    with asking.acting() as act:
        row, is_new = keep_artifact(act.connection, store, upload, now=act.now, actor=act.actor)
        asking.audit(act, "artifact.upload", row.sha256, after={"name": row.name, "size": row.size})
    place = {"Location": f"/v1/artifacts/{row.sha256}"}
    return JSONResponse(_shown(row).model_dump(mode="json"), status_code=201 if is_new else 200, headers=place)


@router.get("/artifacts", **guarded("viewer"), summary="List artifacts")
def list_artifacts(asking: Asks) -> ArtifactList:
    """Newest first."""
    with asking.reading() as act:
        return ArtifactList(items=[_shown(row) for row in listed_artifacts(act.connection)])


@router.get("/artifacts/{sha256}", **guarded("viewer"), summary="Get an artifact")
def get_artifact(sha256: Digest, asking: Asks) -> ArtifactShown:
    """What is known of it; its content is not given out."""
    with asking.acting() as act:
        return _shown(ready_artifact(act.connection, sha256))


@router.delete("/artifacts/{sha256}", status_code=204, **guarded("author"), summary="Remove an artifact")
def remove_artifact(sha256: Digest, asking: Asks) -> None:
    """409 while a version of a job needs it."""
    with asking.acting() as act:
        delete_artifact(act.connection, sha256)
        asking.audit(act, "artifact.delete", sha256)


def _shown(row: ArtifactRow) -> ArtifactShown:
    return ArtifactShown(**row._asdict())
