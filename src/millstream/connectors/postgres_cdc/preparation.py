"""What must be there before the first change is read: the table with its key, a publication of it, and a slot of our own.

The publication comes first: a slot cannot read of one that was made later than what it reads.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from millstream.connectors.decided import decided_once
from millstream.connectors.postgres_cdc.messages import TableRelation
from millstream.connectors.postgres_cdc.positions import lsn_text
from millstream.connectors.postgres_cdc.publication import made, publish, published_columns, quoted
from millstream.connectors.postgres_cdc.relation import check_columns, check_identity
from millstream.connectors.postgres_cdc.server import CdcServer, SlotStatus
from millstream.errors import InvalidStep, StepFailed
from millstream.model.connector import Options
from millstream.model.schema import Schema

_TABLE = """
SELECT c.oid::bigint, n.nspname, c.relkind::text, c.relreplident::text,
       ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
             WHERE i.indrelid = c.oid AND i.indimmediate
               AND CASE c.relreplident WHEN 'i' THEN i.indisreplident WHEN 'd' THEN i.indisprimary ELSE false END)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)"""
_UNIQUE = """
SELECT array_agg(a.attname::text) FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = $1::bigint::oid AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid HAVING bool_and(a.attnotnull)"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTable:
    """A table that can be read."""

    oid: int
    name: str
    """As it stands in statements."""
    has_partitions: bool
    row_filter: str | None
    """The rows that are published, as an expression of the server's own."""
    columns: frozenset[str]
    """Those that are published."""
    lsn: int
    """From where on the slot has every change."""


def prepared(server: CdcServer, options: Options, declared: Schema, log_dir: Path | None, step: str) -> PreparedTable:
    """Make what is missing, where that is wanted, and refuse what would lose changes, or what no change could be read as."""
    oid, schema, kind, identity, identified_by = _found_table(server, options, step)
    check_identity(identity, identified_by, options, step)
    _check_key(server, oid, options, step)
    published = publish(server, options, schema, is_partitioned=kind == "p", step=step)
    relation = TableRelation(oid, schema, options["table"], identity, published_columns(server, oid, published))
    check_columns(relation, options, declared, step)
    status = _own_slot(server, options, log_dir, step)
    return PreparedTable(
        oid=oid,
        name=f"{quoted(schema)}.{quoted(options['table'])}",
        has_partitions=kind == "p",
        row_filter=published.row_filter,
        columns=frozenset(column.name for column in relation.columns),
        lsn=status.confirmed,
    )


def _found_table(server: CdcServer, options: Options, step: str) -> tuple[int, str, str, str, list[str]]:
    name = quoted(options["table"])
    if options["schema"] is not None:
        name = f"{quoted(options['schema'])}.{name}"
    rows = server.rows(_TABLE, name)
    if not rows or rows[0][2] not in {"r", "p"}:
        msg = f"there is no table {name}" if not rows else f"{name} is no table"
        hint = "correct table= and schema=; views and foreign tables have no changes to read"
        raise InvalidStep(msg, code="CDC-008", step=step, hint=hint)
    found: tuple[int, str, str, str, list[str]] = rows[0]
    return found


def _check_key(server: CdcServer, oid: int, options: Options, step: str) -> None:
    known = [names for (names,) in server.rows(_UNIQUE, oid)]
    if not any(set(names) == set(options["keys"]) for names in known):
        # With a deferrable index a key may go to a row before another leaves it: no order of changes by key is right.
        columns = ", ".join(options["keys"])
        msg = f"table {options['table']!r} has no unique index of exactly {columns}, not deferrable, none of them nullable"
        hint = "pass the columns of its primary key as keys="
        raise InvalidStep(msg, code="CDC-008", step=step, known=[", ".join(names) for names in known], hint=hint)


def _own_slot(server: CdcServer, options: Options, log_dir: Path | None, step: str) -> SlotStatus:
    """The slot, made for this source; one that somebody else made is taken only where that is said."""
    slot: str = options["slot"]

    def claim() -> Any:
        if options["create"] and server.status(slot).is_there:
            msg = f"slot {slot!r} is there already, and this checkpoint did not make it: its changes may be another's"
            hint = f"choose another slot=, or SELECT pg_drop_replication_slot('{slot}'); with create=False it is taken as it is"
            raise StepFailed(msg, code="CDC-005", step=step, hint=hint)
        return {"slot": slot}

    decided_once(log_dir, "slot", claim)
    status = server.status(slot)
    if not status.is_there and options["create"]:
        # It waits for every transaction that writes to end, however long that takes.
        statement = "SELECT FROM pg_create_logical_replication_slot($1, 'pgoutput')"
        made(server, statement, slot, is_there=lambda: server.status(slot).is_there)
        status = server.status(slot)
    check_slot(status, options, step)
    return status


def check_slot(status: SlotStatus, options: Options, step: str, *, start: int | None = None) -> None:
    """Refuse a slot that cannot give every change from `start` on; without it, one that can give none.

    Raises:
        StepFailed: (CDC-007) changes are lost; (CDC-005) it is another kind of slot.
    """
    slot, problem = options["slot"], None
    if not status.is_there:
        problem = "does not exist"
    elif status.invalidation is not None or status.wal_status == "lost":
        problem = f"has lost the log that it needs ({status.invalidation or 'wal_removed'})"
    elif start is not None and status.confirmed > start:
        problem = "was moved on by somebody else, behind changes that were not read"
    if problem is not None:
        msg = f"slot {slot!r} {problem}: changes of the table are lost"
        hint = (
            f"SELECT pg_drop_replication_slot('{slot}') if it is there, remove what the job wrote, and start it with a new "
            "checkpoint, which reads the table again"
        )
        raise StepFailed(msg, code="CDC-007", step=step, found=_places(status, start), hint=hint)
    if status.plugin != "pgoutput" or not status.is_of_database:
        msg = f"slot {slot!r} is not one of pgoutput in this database"
        hint = "choose another slot="
        raise StepFailed(msg, code="CDC-005", step=step, found=status.plugin, known="pgoutput", hint=hint)


def _places(status: SlotStatus, start: int | None) -> str | None:
    if not status.is_there or start is None:
        return None
    return f"the slot stands at {lsn_text(status.confirmed)}, the job at {lsn_text(start)}"
