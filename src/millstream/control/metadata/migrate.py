"""The schema's versions: brought up to date by one process at a time, and never run against a newer one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from millstream.control.metadata.database import Metadata
from millstream.control.refusals import SchemaMismatch

_LOCK = 7_214_650_211
"""One number for the migration of every database of ours on a PostgreSQL server: it is held for seconds."""


def upgrade(metadata: Metadata, *, to: str = "head") -> tuple[str | None, str | None]:
    """Bring the schema up to date; gives the revisions before and after. Two at once take turns."""
    with _alone(metadata) as connection:
        before = revision_of(connection)
        _refuse_newer(before)
        command.upgrade(_config(connection), to)
        return before, revision_of(connection)


def downgrade(metadata: Metadata, *, to: str) -> None:
    """Take revisions back, for tests of them and for an upgrade that was a mistake.

    Raises:
        SchemaMismatch: (CTL-005) there is no such revision.
    """
    known = [script.revision for script in _scripts().walk_revisions()]
    if to not in {*known, "base"}:
        msg = "there is no such revision of the schema"
        hint = "name one, or base for an empty database"
        raise SchemaMismatch(
            msg, code="CTL-005", found=repr(to), known=", ".join([*reversed(known), "base"]), hint=hint
        )
    with _alone(metadata) as connection:
        command.downgrade(_config(connection), to)


def is_empty(metadata: Metadata) -> bool:
    """Whether nobody has made a schema there yet."""
    with metadata.begin() as connection:
        return revision_of(connection) is None


def check(metadata: Metadata) -> None:
    """Refuse a schema that is not the one this version knows.

    Raises:
        SchemaMismatch: (CTL-003) it is older and must be upgraded, or newer (CTL-004).
    """
    with metadata.begin() as connection:
        revision = revision_of(connection)
    _refuse_newer(revision)
    if revision != _scripts().get_current_head():
        msg = "the schema of the service's database is older than this version"
        hint = "run: millstream db upgrade"
        raise SchemaMismatch(msg, code="CTL-003", found=f"revision {revision}", known=_head(), hint=hint)


@contextlib.contextmanager
def _alone(metadata: Metadata) -> Iterator[Connection]:
    """A transaction in which nobody else changes the schema: SQLite's are exclusive as it is."""
    with contextlib.closing(metadata.apart(None)) as patient, patient.begin() as connection:
        if not metadata.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        yield connection


def revision_of(connection: Connection) -> str | None:
    """The revision of the schema; `None` before the first."""
    return MigrationContext.configure(connection).get_current_revision()


def _refuse_newer(revision: str | None) -> None:
    known = {script.revision for script in _scripts().walk_revisions()}
    if revision is not None and revision not in known:
        msg = "the schema of the service's database is newer than this version"
        hint = "install the newer version here too"
        raise SchemaMismatch(msg, code="CTL-004", found=f"revision {revision}", known=_head(), hint=hint)


def _head() -> str:
    return f"revision {_scripts().get_current_head()}"


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config(None))


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
