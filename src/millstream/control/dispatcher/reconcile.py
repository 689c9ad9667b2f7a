"""What any dispatcher does every second: bring what is observed to what is wanted. Every act is a compare-and-set."""

from __future__ import annotations

import datetime as dt
import logging
from typing import Any

from sqlalchemy import Row, func, select

from millstream.checkpoint.failpoint import failpoint
from millstream.control.act import Act, acting
from millstream.control.dispatcher.starting import StartOptions, start_run
from millstream.control.lifecycle.states import FINAL, OPEN, Status
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution
from millstream.control.nodes.claims import TERM, expired
from millstream.control.operations import failed, open_operations
from millstream.control.restart.failing import fail
from millstream.control.restart.rules import Failure
from millstream.errors import ExternalFailure

_ENDING = ("drain", "suspend", "cancel", "export_savepoint", "rescale", "dump")
_log = logging.getLogger(__name__)


class Reconciler:
    """The steps of one round, and since when the database has answered."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._answers_since: dt.datetime | None = None

    def round(self) -> None:
        """One round; a database that is away is waited for, and nobody is declared lost right after it came back."""
        try:
            with acting(self._metadata) as act:
                self._answers_since = self._answers_since or act.now
                if act.now - self._answers_since >= TERM:
                    reap(act)
                revive(act)
        except ExternalFailure as problem:
            if self._answers_since is not None:
                _log.warning("the database is away: %s", problem)
            self._answers_since = None


def reap(act: Act) -> int:
    """Runs whose owner fell silent fail, and start again elsewhere: the token of their next claim fences the old owner."""
    reaped = 0
    for run in expired(act):
        failure = Failure(at=act.now, domain="external", retry="backoff", code="CTL-051", counts=False)
        failpoint("reap")
        message = f"node {run.node_id} fell silent: its lease ran out"
        reaped += fail(act, run, failure, message, token=run.token)
    return reaped


def revive(act: Act) -> None:
    """Streaming jobs that are to run, and have no run although nothing went wrong, get one."""
    for job in act.connection.execute(_missing()):
        newest = _newest_run(act, job.id)
        if newest is None or newest.status in (Status.COMPLETED, Status.DEAD):
            continue
        start_run(act, job, StartOptions(), trigger=f"desired:{newest.execution_id}")


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
        error = {"code": "CTL-039", "message": f"the run ended as {run.status} before it was done"}
        failed(act, each.id, error)
