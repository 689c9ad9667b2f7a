"""What the database knows about artifacts: a row for each, which decides whether a job may name it."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, exists, or_, select, update

from millstream.control.artifacts.limits import ArtifactKind
from millstream.control.artifacts.store import ArtifactStore, Upload, unknown_artifact
from millstream.control.metadata.tables.jobs import artifact, job_definition, job_version
from millstream.control.metadata.upserts import upsert
from millstream.control.refusals import StateConflict

_COLUMNS = (
    artifact.c.sha256,
    artifact.c.name,
    artifact.c.size,
    artifact.c.kind,
    artifact.c.create_time,
    artifact.c.created_by,
)


class ArtifactRow(NamedTuple):
    """An artifact as people see it."""

    sha256: str
    name: str
    size: int
    kind: ArtifactKind
    create_time: dt.datetime
    """When it was uploaded last."""
    created_by: str


def keep_artifact(
    connection: Connection, store: ArtifactStore, upload: Upload, *, now: dt.datetime, actor: str
) -> tuple[ArtifactRow, bool]:
    """Keep an upload that is finished; gives its row, and whether it was not known before. One that is known keeps its name.

    Raises:
        ArtifactRefused: (CTL-350 to CTL-357) it must not be unpacked.
    """
    sha256 = upload.finish()
    is_known = _found(connection, sha256) is not None
    fields = {"name": upload.name, "size": upload.size, "kind": upload.kind, "created_by": actor}
    upsert(connection, artifact, {"sha256": sha256}, {"state": "READY", "create_time": now}, **fields)
    # The row is locked by now: who removes the file holds the same lock, so it is there when both are done.
    store.keep(upload)
    return ready_artifact(connection, sha256), not is_known


def ready_artifact(connection: Connection, sha256: str) -> ArtifactRow:
    """An artifact that a job may name; it stays until the transaction ends.

    Raises:
        UnknownName: (CTL-358) there is none, or it is about to be removed.
    """
    found = _found(connection, sha256)
    if found is None:
        raise unknown_artifact(sha256)
    return found


def listed_artifacts(connection: Connection) -> list[ArtifactRow]:
    """All artifacts, the newest first."""
    ready = select(*_COLUMNS).where(artifact.c.state == "READY")
    return [
        ArtifactRow(*row)
        for row in connection.execute(ready.order_by(artifact.c.create_time.desc(), artifact.c.sha256))
    ]


def delete_artifact(connection: Connection, sha256: str) -> None:
    """Let an artifact go that no job needs; its file is removed by the next collection.

    Raises:
        UnknownName: (CTL-358) there is none.
        StateConflict: (CTL-360) a version of a job needs it.
    """
    ready_artifact(connection, sha256)
    unused = update(artifact).where(artifact.c.sha256 == sha256, ~is_used()).values(state="DELETED")
    if connection.execute(unused.returning(artifact.c.sha256)).scalar() is None:
        msg = "a version of a job needs the artifact"
        raise StateConflict(msg, code="CTL-360", found=sha256, hint="delete the job first")


def is_used() -> ColumnElement[bool]:
    """Whether a job that is not deleted needs an artifact, in any of its versions."""
    definition = exists().where(
        job_definition.c.artifact_sha256 == artifact.c.sha256, job_definition.c.deleted_time.is_(None)
    )
    version = exists().where(
        job_version.c.artifact_sha256 == artifact.c.sha256,
        job_version.c.job_id == job_definition.c.id,
        job_definition.c.deleted_time.is_(None),
    )
    return or_(definition, version)


def _found(connection: Connection, sha256: str) -> ArtifactRow | None:
    # Against one who collects at the same time; several jobs may be submitted with one artifact at once.
    ready = select(*_COLUMNS).where(artifact.c.sha256 == sha256, artifact.c.state == "READY")
    row = connection.execute(ready.with_for_update(read=True)).one_or_none()
    return None if row is None else ArtifactRow(*row)
