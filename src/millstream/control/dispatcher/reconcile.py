"""What any dispatcher does every second: bring what is observed to what is wanted. Every act is a compare-and-set."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import Row, func, select

from millstream.checkpoint.failpoint import failpoint
from millstream.control.act import Act, acting
from millstream.control.dispatcher.starting import StartOptions, start_run
from millstream.control.lifecycle.states import FINAL, OPEN, Status
from millstream.control.metadata.database import Metadata, utc_now
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution
from millstream.control.nodes.claims import TERM, expired, lease_name, take_back
from millstream.control.operations import done, failed, open_operations
from millstream.control.restart.failing import fail
from millstream.control.restart.rules import Failure
from millstream.errors import ExternalFailure

_ENDING = ("drain", "suspend", "cancel", "export_savepoint", "rescale", "dump")
_SLEPT_SECONDS = 6.0
"""A shorter silence of the database, or of this process, cannot make a lease run out that was renewed in time: leases are
renewed every 3 s for 15 s, so at least 6 s are left for a renewal that was held up."""
_log = logging.getLogger(__name__)


class Reconciler:
    """The steps of one round, and since when the database has answered."""

    def __init__(self, metadata: Metadata, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._metadata, self._monotonic = metadata, monotonic
        self._answers_since: dt.datetime | None = None
        self._answered, self._was = monotonic(), utc_now()

    def round(self) -> None:
        """One round; a database that is away is waited for, and nobody is declared lost right after it came back."""
        try:
            for run in self._lost():
                self._reap(run)
            with acting(self._metadata) as act:
                revive(act)
        except ExternalFailure as problem:
            if self._answers_since is not None:
                _log.warning("the database is away: %s", problem)
            self._answers_since = None

    def _lost(self) -> list[Row[Any]]:
        """Runs whose owner fell silent, while this process and the database were awake to hear it."""
        with acting(self._metadata) as act:
            # A machine that slept with everything on it shows by the database's clock alone.
            silent = max(self._monotonic() - self._answered, (act.now - self._was).total_seconds())
            slept, since = silent > _SLEPT_SECONDS, self._answers_since
            # A clock that was set back would otherwise keep every owner alive until it is where it was.
            self._answers_since = act.now if slept or since is None or act.now < since else since
            self._answered, self._was = self._monotonic(), act.now
            return expired(act) if act.now - self._answers_since >= TERM else []

    def _reap(self, run: Row[Any]) -> None:
        """Each in a transaction of its own: one that cannot be reaped keeps nobody else waiting."""
        try:
            with acting(self._metadata) as act:
                reap_one(act, run)
        except ExternalFailure:
            raise
        except Exception:
            _log.exception("run %s could not be reaped; it is tried again", run.execution_id)


def reap_one(act: Act, run: Row[Any]) -> bool:
    """A run whose owner fell silent fails, and starts again elsewhere: the token of its next claim fences the old owner.

    Its lease is freed with it, so an owner that comes back now is told that it has nothing left.
    """
    as_seen = execution.c.id == run.id, execution.c.status == run.status, execution.c.token == run.token
    # The run is locked before its lease, as whoever writes down its end does. One that somebody has locked is looked at later:
    # who waited here for a process that was stopped would hear of no other run.
    locked = select(execution.c.id).where(*as_seen).with_for_update(skip_locked=True)
    if act.connection.execute(locked).first() is None:
        return False
    if not take_back(act, lease_name(run.job_id, run.slot_no), run.token):
        return False
    failure = Failure(at=act.now, domain="external", retry="backoff", code="CTL-051", counts=False)
    failpoint("reap")
    message = f"node {run.node_id} fell silent: its lease ran out"
    reaped = fail(act, run, failure, message, token=run.token)
    settle(act, act.connection.execute(select(execution).where(execution.c.id == run.id)).one())
    return reaped


def revive(act: Act) -> None:
    """Streaming jobs that are to run, and have no run although nothing went wrong, get one that goes on as the last began."""
    for job in act.connection.execute(_missing()):
        newest = _newest_run(act, job.id)
        if newest is None or newest.status in (Status.COMPLETED, Status.DEAD):
            continue
        options = msgspec.convert(newest.options, StartOptions).going_on()
        start_run(act, job, options, trigger=f"desired:{newest.execution_id}", slot=newest.slot_no)


def _missing() -> Any:
    has_open = select(execution.c.id).where(execution.c.job_id == job_definition.c.id, execution.c.status.in_(OPEN))
    wanted = job_definition.c.desired == "RUNNING", job_definition.c.enabled, job_definition.c.deleted_time.is_(None)
    return select(job_definition).where(*wanted, ~has_open.exists())


def _newest_run(act: Act, job_id: int) -> Row[Any] | None:
    newest = select(func.max(execution.c.id)).where(execution.c.job_id == job_id).scalar_subquery()
    return act.connection.execute(select(execution).where(execution.c.id == newest)).first()


def settle(act: Act, run: Row[Any]) -> None:
    """Operations that a run left open when it ended are failed: nobody will answer them."""
    if run.status not in FINAL:
        return
    for each in open_operations(act, run.execution_id, _ENDING):
        if (each.kind, run.status) == ("cancel", Status.CANCELLED):
            done(act, each.id, status=Status.CANCELLED)
            continue
        error = {"code": "CTL-039", "message": f"the run ended as {run.status} before it was done"}
        failed(act, each.id, error)
