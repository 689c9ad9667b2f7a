"""The service's database as a process finds it when it starts."""

from __future__ import annotations

from pathlib import Path

from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata


def open_metadata(database: str | None, data: Path) -> Metadata:
    """The service's database, with the schema of this version; what is empty or this machine's own is brought to it.

    Raises:
        SchemaMismatch: a shared database has another schema: `db upgrade` is for people to decide.
    """
    metadata = Metadata(database or f"sqlite:///{data / 'metadata.db'}")
    if metadata.is_sqlite or migrate.is_empty(metadata):
        migrate.upgrade(metadata)
    migrate.check(metadata)
    return metadata
