"""How the server is reached, and the words in which it is asked about its log, its slots and the table."""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

import psycopg

from millstream.connectors.postgres_cdc.positions import lsn_number, lsn_text
from millstream.database.postgres import Connection, PostgresSession, connect, noticing, server_settings
from millstream.database.session import Trouble
from millstream.database.url import DatabaseUrl, address_of
from millstream.errors import ExternalFailure, MillstreamError, StepFailed
from millstream.model.connector import Options
from millstream.model.secret import with_secrets

PATIENCE = 30.0
"""Seconds for which a server that is away, or a slot that an older owner still reads, is asked again."""

_SETTINGS = """
SELECT set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO, YMD', false),
       set_config('bytea_output', 'hex', false), set_config('extra_float_digits', '1', false),
       set_config('intervalstyle', 'postgres', false), set_config('statement_timeout', '0', false)"""
_STATUS = """
SELECT pg_current_wal_flush_lsn()::text, s.slot_name IS NOT NULL, s.plugin::text, s.database = current_database(),
       s.confirmed_flush_lsn::text, s.wal_status, to_jsonb(s) ->> 'invalidation_reason',
       pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint
FROM (SELECT 1) one LEFT JOIN pg_replication_slots s ON s.slot_name = $1"""


@dataclasses.dataclass(frozen=True, slots=True)
class SlotStatus:
    """A slot as it is now, and how far the log is written."""

    flushed: int
    is_there: bool
    plugin: str | None
    is_of_database: bool
    confirmed: int
    """Everything before it can never be read again."""
    wal_status: str
    invalidation: str | None
    retained_bytes: int
    """How much of the log the server keeps for the slot."""


class CdcServer:
    """One session with the server, for the driver."""

    def __init__(self, options: Options, *, step: str) -> None:
        login = CdcLogin(options, step)
        self.session = PostgresSession(login.connected, patience=PATIENCE, fail=login.fail)
        self._is_closed = False

    def status(self, slot: str) -> SlotStatus:
        """The slot and the end of the log."""
        ((flushed, is_there, plugin, is_here, confirmed, wal_status, invalidation, retained),) = self.rows(
            _STATUS, slot
        )
        return SlotStatus(
            flushed=lsn_number(flushed),
            is_there=is_there,
            plugin=plugin,
            is_of_database=bool(is_here),
            confirmed=lsn_number(confirmed) if confirmed else 0,
            wal_status=wal_status or "",
            invalidation=invalidation,
            retained_bytes=retained or 0,
        )

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement with `$1` for its first value; asked again when the server was away."""

        def work(cursor: psycopg.Cursor[Any]) -> list[tuple[Any, ...]]:
            self.refuse_closed()
            return cursor.execute(statement.encode(), values).fetchall()

        return self.session.run(work)

    def do(self, statement: str, *values: object) -> None:
        """Run a statement; when the server was away, again."""

        def work(cursor: psycopg.Cursor[Any]) -> None:
            self.refuse_closed()
            cursor.execute(statement.encode(), values)

        self.session.run(work)

    def advance(self, slot: str, lsn: int) -> None:
        """Let the server forget everything before a place."""
        self.do("SELECT FROM pg_replication_slot_advance($1, $2::text::pg_lsn)", slot, lsn_text(lsn))

    def refuse_closed(self) -> None:
        """Ask nothing more of the server once the run has ended."""
        if self._is_closed:
            raise SourceClosed

    def cancel(self) -> None:
        """End what another thread asks of the server, and let it ask nothing more."""
        self._is_closed = True
        self.session.cancel()

    def close(self) -> None:
        """End the session."""
        self.session.close()


class SourceClosed(Exception):
    """The run has ended; what was under way is of no use."""


class CdcLogin:
    """How to reach the server, in whose name, and what its errors mean."""

    def __init__(self, options: Options, step: str) -> None:
        self.address: DatabaseUrl = address_of(options["url"])
        self._options, self._step = options, step

    def connected(self) -> Connection:
        """A new connection that writes values in one way, whatever the server's settings are."""
        password = with_secrets(self.address.password, step=self._step)
        settings: dict[str, Any] = {
            **noticing(idle=10, interval=3, unconfirmed=20),
            **server_settings(self.address, password),
            "client_encoding": "utf8",
            "application_name": f"millstream {self._step}"[:63],
        }
        return connect(settings, lambda connection: connection.execute(_SETTINGS))

    def fail(self, trouble: Trouble) -> NoReturn:
        """Raise what the source says about an error of the server."""
        raise self.explained(trouble.cause, is_passing=trouble.is_passing) from trouble.cause

    def explained(self, problem: Exception, *, is_passing: bool) -> MillstreamError:
        """An error of the server in our words."""
        found = self.address.hidden(" ".join(str(problem).split())[:300]) or type(problem).__name__
        slot = self._options["slot"]
        if "is active for PID" in found:
            msg = f"somebody reads slot {slot!r}, for {PATIENCE:.0f} seconds"
            hint = "stop the other reader; each source needs a slot of its own"
            return ExternalFailure(msg, code="CDC-006", step=self._step, found=found, hint=hint)
        if is_passing:
            msg = f"the {self.address.label} does not answer, for {PATIENCE:.0f} seconds"
            hint = "check that it runs and can be reached, then start the job again"
            return ExternalFailure(msg, code="CDC-002", step=self._step, found=found, hint=hint)
        msg = f"the {self.address.label} refused a statement"
        hint = "it needs wal_level=logical, and the user the right to REPLICATION and to read the table"
        return StepFailed(msg, code="CDC-004", step=self._step, found=found, hint=hint)
