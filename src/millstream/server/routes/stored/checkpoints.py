"""Checkpoints of jobs: what they take on disk, and their removal. Savepoints stay."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from pydantic import BaseModel

from millstream.control.dispatcher.keeping import checkpoints, drop_checkpoint
from millstream.control.dispatcher.removing import removing
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.routes.shapes import Name

router = APIRouter(tags=["jobs"])


class CheckpointShown(BaseModel):
    """The checkpoint of a job."""

    job: str
    path: str
    bytes: int
    deleted: bool


class CheckpointList(BaseModel):
    """All of them."""

    items: list[CheckpointShown]


@router.get("/checkpoints", **guarded("viewer"), summary="List the checkpoints of jobs")
def list_checkpoints(asking: Asks) -> CheckpointList:
    """By job; those of deleted jobs too."""
    with asking.reading() as act:
        found = checkpoints(act, _root(asking))
    return CheckpointList(items=[CheckpointShown.model_validate(each) for each in found])


@router.delete(
    "/jobs/{name}/checkpoint", status_code=204, **guarded("operator"), summary="Remove the checkpoint of a job"
)
def remove_checkpoint(name: Name, asking: Asks) -> None:
    """Those of all slots, only of a job that does not run, deleted or not; its next start begins afresh, or from a savepoint."""
    with removing() as aside, asking.acting() as act:
        paths = drop_checkpoint(act, name, _root(asking), aside)
        asking.audit(act, "checkpoint.remove", name, before={"paths": paths})


def _root(asking: Asking) -> Path:
    root = asking.service.checkpoints
    assert root is not None, "these routes are there only where checkpoints are"
    return root
