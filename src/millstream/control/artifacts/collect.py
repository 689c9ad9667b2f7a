"""Remove code that no job needs any more: first nobody may name it, then its file goes."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from sqlalchemy import delete, select, update

from millstream.control.artifacts.rows import is_used
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.jobs import artifact

GRACE = dt.timedelta(days=1)
"""Between an upload and the job that names it there may be a pause, in which nothing refers to it."""


class Collected(NamedTuple):
    """What was removed: artifacts, and files that belong to none."""

    artifacts: int
    files: int


def collect(metadata: Metadata, store: ArtifactStore, *, now: dt.datetime, grace: dt.timedelta = GRACE) -> Collected:
    """Remove what no version of a job refers to, if older than the grace; two at once, or one that is cut short, do no harm."""
    with metadata.begin() as connection:
        old = update(artifact).where(artifact.c.state == "READY", artifact.c.create_time < now - grace, ~is_used())
        connection.execute(old.values(state="DELETED"))
        gone = list(connection.scalars(select(artifact.c.sha256).where(artifact.c.state == "DELETED")))
    removed = sum(_removed(metadata, store, sha256) for sha256 in gone)
    before = (now - grace).timestamp()
    return Collected(removed, store.remove_unfinished(before) + _strangers(metadata, store, before))


def _removed(metadata: Metadata, store: ArtifactStore, sha256: str) -> bool:
    with metadata.begin() as connection:
        mine = delete(artifact).where(artifact.c.sha256 == sha256, artifact.c.state == "DELETED")
        is_mine = connection.execute(mine.returning(artifact.c.sha256)).scalar() is not None
        if is_mine:
            # Inside the transaction: one that uploads it again waits for this row, and writes the file after.
            store.remove(sha256)
        return is_mine


def _strangers(metadata: Metadata, store: ArtifactStore, before: float) -> int:
    """Files whose transaction did not end well. One that is just being uploaded is younger than the grace."""
    old = [sha256 for sha256, came in store.kept().items() if came < before]
    with metadata.begin() as connection:
        known = set(connection.scalars(select(artifact.c.sha256)))
    strangers = [sha256 for sha256 in old if sha256 not in known]
    for sha256 in strangers:
        store.remove(sha256)
    return len(strangers)
