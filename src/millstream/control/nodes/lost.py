"""A run whose driver is gone without having said how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from sqlalchemy import Row, select

from millstream.contract.driver_protocol import DriverReport
from millstream.control.act import Act
from millstream.control.dispatcher.reconcile import settle
from millstream.control.dispatcher.stopping import run_of
from millstream.control.lifecycle.moves import move, record
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.runs import execution
from millstream.control.nodes.claims import lease_name, release
from millstream.control.operations import done, open_operations
from millstream.control.restart.failing import fail
from millstream.control.restart.rules import Failure
from millstream.errors import Fenced, MillstreamError

RefusalKind = Literal["lease_lost", "fenced"]
"""Kinds of events: what metrics count of owners that were refused."""


def tell(act: Act, run: str, token: int, kind: RefusalKind, cause: str) -> None:
    """Write down that an owner of a run was refused; the run is another's by then, and stays as it is."""
    locked = select(execution.c.id).where(execution.c.execution_id == run).with_for_update()
    if act.connection.execute(locked).first() is not None:
        record(act.connection, run, kind, act.cause(cause), now=act.now, token=token)


def is_fenced(reports: Iterable[DriverReport]) -> bool:
    """Whether a driver ended because there is a newer owner."""
    ends = [report.body.get("error") or {} for report in reports if report.type == "result"]
    return any(error.get("kind") == Fenced.__name__ for error in ends)


def lose(
    act: Act,
    run: Row[Any],
    cause: str,
    *,
    is_cancelled: bool = False,
    counts: bool = True,
    error: Exception | None = None,
) -> None:
    """The run failed, or is cancelled if that is what was wanted; what was not durable is done again by the next attempt.

    A run whose driver never began (`counts` is false) has done nothing that its job could be blamed for.
    """
    if is_cancelled:
        reason = act.cause(f"ended by force: {cause}")
        move(
            act.connection, run.execution_id, Status.CANCELLING, Status.CANCELLED, reason, now=act.now, token=run.token
        )
        for each in open_operations(act, run.execution_id, ("drain", "suspend", "cancel")):
            done(act, each.id, status=Status.CANCELLED)
    else:
        fail(act, run, _failure(act, error, counts=counts), cause, token=run.token)
    release(act, lease_name(run.job_id, run.slot_no), run.token)
    settle(act, run_of(act, run.execution_id))


def _failure(act: Act, error: Exception | None, *, counts: bool) -> Failure:
    """What no attempt can mend, such as a secret that is not there, is not tried again."""
    if isinstance(error, MillstreamError):
        return Failure(at=act.now, domain=error.domain, retry=error.retry, code=error.code, counts=counts)
    return Failure(at=act.now, domain="external", retry="backoff", code="CTL-052", counts=counts)
