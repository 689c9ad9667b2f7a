"""The publication through which the slot is read: made where that is wanted, checked, and watched.

A slot gives the changes that the publication held when they were made, and passes over all others without a word. So one that was
dropped, altered or made anew in between has lost changes, though the slot is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from millstream.connectors.decided import decided_once
from millstream.connectors.postgres_cdc.messages import RelationColumn
from millstream.connectors.postgres_cdc.server import CdcServer
from millstream.errors import StepFailed
from millstream.model.connector import Options

_PUBLICATION = """
SELECT p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, p.pubviaroot,
       (SELECT to_jsonb(t) FROM pg_publication_tables t
        WHERE t.pubname = p.pubname AND t.schemaname = $2 AND t.tablename = $3)
FROM pg_publication p WHERE p.pubname = $1"""
_COLUMNS = """
SELECT a.attname::text, a.atttypid::bigint FROM pg_attribute a
WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped
  AND (a.attgenerated = '' OR current_setting('server_version_num')::int >= 180000) ORDER BY a.attnum"""
_HELD = """
SELECT p.oid::bigint, ARRAY(SELECT r.oid::bigint FROM pg_publication_rel r
       WHERE r.prpubid = p.oid
         AND (r.prrelid = $2::bigint::oid OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors($2::bigint::oid)))
       ORDER BY r.oid)
FROM pg_publication p
WHERE p.pubname = $1 AND p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate
  AND EXISTS (SELECT FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
              JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
              WHERE t.pubname = p.pubname AND c.oid = $2::bigint::oid)"""


def publication_of(options: Options) -> str:
    """The publication: by default it bears the name of the slot."""
    return str(options["publication"] or options["slot"])


def quoted(name: str) -> str:
    """An identifier in quotes, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


class Published(NamedTuple):
    """What a publication shows of a table."""

    row_filter: str | None
    """Of rows, as an expression of the server's own."""
    names: frozenset[str] | None
    """Of columns; servers before 15 do not tell them: all but those that are computed."""


def publish(server: CdcServer, options: Options, schema: str, *, is_partitioned: bool, step: str) -> Published:
    """Create the publication, or check the one that is there."""
    name, table = publication_of(options), options["table"]
    rows = server.rows(_PUBLICATION, name, schema, table)
    if not rows and options["create"]:
        via_root = " WITH (publish_via_partition_root)" if is_partitioned else ""
        statement = f"CREATE PUBLICATION {quoted(name)} FOR TABLE {quoted(schema)}.{quoted(table)}{via_root}"
        made(server, statement, is_there=lambda: bool(server.rows(_PUBLICATION, name, schema, table)))
        rows = server.rows(_PUBLICATION, name, schema, table)
    problem = _lack(rows, is_partitioned=is_partitioned)
    if problem is not None:
        msg = f"publication {name!r} {problem}"
        how = "publish = 'insert, update, delete, truncate'" + (
            ", publish_via_partition_root" if is_partitioned else ""
        )
        first = f"DROP PUBLICATION {name} if no other job reads it, then " if rows else ""
        hint = f"{first}CREATE PUBLICATION {name} FOR TABLE {schema}.{table} WITH ({how})"
        raise StepFailed(msg, code="CDC-008", step=step, hint=hint)
    shown = rows[0][2]
    return Published(shown.get("rowfilter"), frozenset(shown["attnames"]) if "attnames" in shown else None)


def published_columns(server: CdcServer, oid: int, published: Published) -> tuple[RelationColumn, ...]:
    """The columns of the table whose values changes bring."""
    found = [RelationColumn(name, kind, is_key=False) for name, kind in server.rows(_COLUMNS, oid)]
    return tuple(column for column in found if published.names is None or column.name in published.names)


def _lack(rows: list[tuple[Any, ...]], *, is_partitioned: bool) -> str | None:
    """What a publication lacks, in words."""
    if not rows:
        return "does not exist"
    publishes_all, via_root, table = rows[0]
    if not publishes_all:
        return "does not publish inserts, updates, deletes and truncates"
    if is_partitioned and not via_root:
        return "publishes partitions under their own names"
    return None if table is not None else "does not hold the table"


def made(server: CdcServer, statement: str, *values: object, is_there: Callable[[], bool]) -> None:
    """Run a statement that makes something; it may be there because another owner was first, or because a reply was lost."""
    try:
        server.do(statement, *values)
    except StepFailed:
        if not is_there():
            raise


class PublicationWatch:
    """Sees that the publication is the one with which the job began, and holds the table still."""

    def __init__(self, server: CdcServer, options: Options, log_dir: Path | None, step: str) -> None:
        self._server, self._options, self._log_dir, self._step = server, options, log_dir, step
        self._began_with: Any = None

    def check(self, oid: int) -> None:
        """To be asked once it is decided how far the log is read: what the publication holds then, it held up to there.

        Raises:
            StepFailed: (CDC-007) changes may be lost.
        """
        rows = self._server.rows(_HELD, publication_of(self._options), oid)
        held = [rows[0][0], rows[0][1]] if rows else None
        if held is not None and self._began_with is None:
            self._began_with = decided_once(self._log_dir, "publication", lambda: held)
        if held is None or held != self._began_with:
            raise self._lost(held)

    def _lost(self, held: Any) -> StepFailed:
        name, slot = publication_of(self._options), self._options["slot"]
        what = "does not hold the table any more" if held is None else "was altered or made anew"
        msg = f"publication {name!r} {what}: changes of the table may be lost"
        hint = (
            f"SELECT pg_drop_replication_slot('{slot}'), remove what the job wrote, and start it with a new checkpoint, which "
            "reads the table again"
        )
        return StepFailed(msg, code="CDC-007", step=self._step, hint=hint)
