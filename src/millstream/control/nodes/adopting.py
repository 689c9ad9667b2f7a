"""Runs that a node process takes up: an earlier process of it left them, or the reply to a claim was lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy import Row

from millstream.checkpoint.failpoint import failpoint
from millstream.control.act import Act, acting
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.database import Metadata
from millstream.control.nodes.claims import lease_name, owned_run, owned_runs, renew
from millstream.control.nodes.host import DriverHost, boot_seconds
from millstream.control.nodes.leases import RENEW_SECONDS, TERM_MS
from millstream.control.nodes.lost import lose
from millstream.control.nodes.owned import OwnedRun
from millstream.control.nodes.placing import secret_names
from millstream.control.nodes.registration import NodeState, Offer, register
from millstream.control.nodes.table import RunTable
from millstream.control.tracing.traces import Traces
from millstream.errors import ExternalFailure

_log = logging.getLogger(__name__)


class Adoption:
    """First every lease is renewed, in the transaction that finds the runs; then one driver after the other is connected to."""

    def __init__(
        self,
        metadata: Metadata,
        offer: Offer,
        host: DriverHost,
        table: RunTable,
        monotonic: Callable[[], float],
        traces: Traces,
    ) -> None:
        self._metadata, self._offer, self._host = metadata, offer, host
        self._table, self._monotonic, self._traces = table, monotonic, traces
        self._looked_at = float("-inf")
        self._waiting: dict[str, tuple[Row[Any], OwnedRun]] = {}

    def register(self) -> NodeState:
        """The row of the node and the leases of everything that it answers for, before anything else."""
        told = boot_seconds()
        with acting(self._metadata, self._offer.actor) as act:
            state = register(act, self._offer, alone=self._metadata.is_sqlite)
            rows = self._found(act)
            kept = renew(act, self._offer.id, {lease_name(row.job_id, row.slot_no): row.token for row in rows}).kept
        failpoint("node_registered")
        for owned in self._taken(rows):
            if owned.lease in kept:
                owned.promise(told, TERM_MS)
        return state

    def round(self) -> None:
        """Connect to the drivers of what was found; look for more from time to time."""
        if self._monotonic() - self._looked_at >= RENEW_SECONDS:
            with acting(self._metadata, self._offer.actor) as act:
                rows = self._found(act)
            self._taken(rows)
        for row, owned in list(self._waiting.values()):
            self._try(row, owned)

    def _found(self, act: Act) -> list[Row[Any]]:
        return [row for row in owned_runs(act, self._offer.id) if row.execution_id not in self._table]

    def _taken(self, rows: list[Row[Any]]) -> list[OwnedRun]:
        """All of them are the node's from now on, however long it takes to connect to the first."""
        self._looked_at = self._monotonic()
        found = [OwnedRun.of(row, row.token, self._looked_at, self._traces) for row in rows]
        self._waiting |= {owned.id: (row, owned) for row, owned in zip(rows, found, strict=True)}
        self._table.add(*found)
        return found

    def _try(self, row: Row[Any], owned: OwnedRun) -> None:
        """One that cannot be taken up keeps nobody waiting; its lease runs out, unless it can be in time."""
        try:
            if owned.id in self._table:
                self._adopt(row, owned)
        except ExternalFailure:
            raise
        except Exception:
            _log.exception("run %s could not be taken up; it is tried again", owned.id)
            self._table.forget(owned)
        self._waiting.pop(owned.id, None)

    def _adopt(self, row: Row[Any], owned: OwnedRun) -> None:
        """A driver that outlived the process that started it is connected to again."""
        words = self._host.last_words(owned.id, owned.token, after=owned.seq)
        is_alive = self._host.is_alive(owned.id, owned.token)
        if not words and not is_alive:
            self._lose(row, owned, is_alive=is_alive)
            return
        for report in words:
            owned.take(report)
        with acting(self._metadata, self._offer.actor) as act:
            names = secret_names(act, row)
        # Secrets are read in a transaction of their own: SQLite has one at a time.
        self._table.connect(owned, names)
        failpoint("node_adopted")

    def _lose(self, row: Row[Any], owned: OwnedRun, *, is_alive: bool | None) -> None:
        cause = "its driver was gone when the node came back" if is_alive is False else "its driver never began"
        with acting(self._metadata, self._offer.actor) as act:
            now = owned_run(act, self._offer.id, owned.id, owned.token)
            if now is not None:
                lose(act, now, cause, is_cancelled=now.status == Status.CANCELLING, counts=is_alive is False)
        self._table.forget(owned)
