"""Runs end here: what is asked of one is written down, and carried to its driver by the node that owns it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from sqlalchemy import Row, select, update

from millstream.control.act import Act
from millstream.control.lifecycle.moves import move
from millstream.control.lifecycle.states import FINAL, OWNED, Status
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution
from millstream.control.operations import AskedUnder, done, never_begun, open_operation
from millstream.control.refusals import StateConflict, UnknownName

StopMode = Literal["drain", "suspend", "cancel", "export_savepoint"]
STOP_MODES: tuple[StopMode, ...] = ("drain", "suspend", "cancel", "export_savepoint")
_WAITING = (Status.CREATED, Status.SCHEDULED, Status.FAILED)
"""No node has these: nobody need be asked."""


class Wish(NamedTuple):
    """What a run is to do, and where a savepoint goes."""

    mode: StopMode
    to: str = ""
    form: Literal["canonical", "native"] = "canonical"


def run_of(act: Act, identifier: str) -> Row[Any]:
    """A run by its id, or by the beginning of it if only one begins so.

    Raises:
        UnknownName: (CTL-034) there is none, or more than one.
    """
    whole = act.connection.execute(select(execution).where(execution.c.execution_id == identifier)).first()
    if whole is not None:
        return whole
    begins = execution.c.execution_id.startswith(identifier, autoescape=True)
    rows = list(act.connection.execute(select(execution).where(begins).limit(2))) if identifier else []
    if len(rows) != 1:
        msg = "there is no such run" if not rows else "more than one run begins like that"
        raise UnknownName(msg, code="CTL-034", found=repr(identifier), hint="see what there is: millstream list --runs")
    return rows[0]


def stop(act: Act, run: Row[Any], wish: Wish, asked: AskedUnder | None = None) -> str:
    """Ask a run for an end or a savepoint; gives the operation that says what became of it.

    Raises:
        StateConflict: (CTL-035) it has ended, (CTL-036) it is ending, or (CTL-037) it does not run yet.
    """
    if run.status in FINAL:
        msg = "the run has ended"
        raise StateConflict(
            msg, code="CTL-035", found=run.status, hint="start the job again, or look at its newest run"
        )
    ends = wish.mode != "export_savepoint"
    if ends and run.wanted is not None and wish.mode != "cancel":
        msg = "the run is ending already"
        raise StateConflict(msg, code="CTL-036", found=run.wanted, hint="wait for it, or cancel")
    operation = (_before_it_runs if run.status in _WAITING else _while_it_runs)(act, run, wish, asked)
    if ends:
        # Behind the run, as whoever writes down its end does: in the other order the two would wait for each other.
        _unwanted(act, run.job_id)
    return operation


def _unwanted(act: Act, job_id: int) -> None:
    act.connection.execute(update(job_definition).where(job_definition.c.id == job_id).values(desired="STOPPED"))


def _before_it_runs(act: Act, run: Row[Any], wish: Wish, asked: AskedUnder | None) -> str:
    if wish.mode != "cancel":
        msg = "the run does not run yet, so it has nothing to publish or to save"
        raise StateConflict(msg, code="CTL-037", found=run.status, hint="wait until it runs, or cancel it")
    moved = move(
        act.connection,
        run.execution_id,
        Status(run.status),
        Status.CANCELLED,
        act.cause("cancelled before it ran"),
        now=act.now,
    )
    if not moved:
        raise _raced()
    operation = open_operation(act, "cancel", run.execution_id, asked)
    done(act, operation, status=Status.CANCELLED)
    return operation


def _while_it_runs(act: Act, run: Row[Any], wish: Wish, asked: AskedUnder | None) -> str:
    operation = open_operation(act, wish.mode, run.execution_id, asked, to=wish.to, form=wish.form)
    if wish.mode == "export_savepoint":
        _still_open(act, run)
        return operation
    matching = update(execution).where(execution.c.execution_id == run.execution_id, execution.c.status.in_(OWNED))
    # A cancel may come on top of a drain that takes too long.
    matching = matching if wish.mode == "cancel" else matching.where(execution.c.wanted.is_(None))
    changed = matching.values(wanted=wish.mode, wanted_at=act.now)
    if act.connection.execute(changed.returning(execution.c.id)).first() is None:
        raise _raced()
    if wish.mode == "cancel" and run.status != Status.CANCELLING:
        _cancelling(act, run)
    return operation


def _still_open(act: Act, run: Row[Any]) -> None:
    """Whoever ends the run waits for us from here on: who ended it before answered what was asked until then, and no more."""
    still = execution.c.id == run.id, execution.c.status.not_in(FINAL)
    if act.connection.execute(select(execution.c.id).where(*still).with_for_update()).first() is None:
        raise _raced()


def _cancelling(act: Act, run: Row[Any]) -> None:
    status = act.connection.execute(select(execution.c.status).where(execution.c.id == run.id)).scalar_one()
    if status == Status.CANCELLING:
        return
    cause = act.cause("cancel was asked for")
    if not move(act.connection, run.execution_id, Status(status), Status.CANCELLING, cause, now=act.now):
        raise _raced()


_WITHDRAWN: dict[str, str | None] = {
    "drain": "drain",
    "suspend": "suspend",
    "rescale": "suspend",
    "export_savepoint": None,
    "dump": None,
}
"""What can be taken back, and what the run is no longer to do then. A cancelled run goes on nowhere, files that go are gone."""


def withdraw(act: Act, asked: Row[Any]) -> None:
    """Take back what no node has begun; the run goes on as if nobody had asked.

    Raises:
        StateConflict: (REST-030) it is under way, or is nothing that can be taken back.
    """
    # The run first, as whoever writes down its end does.
    run = act.connection.execute(
        select(execution.c.job_id, execution.c.wanted).where(execution.c.execution_id == asked.target).with_for_update()
    ).first()
    error = {"code": "REST-030", "message": f"withdrawn by {act.actor}"}
    if asked.kind not in _WITHDRAWN or not never_begun(act, asked.id, error):
        msg = "the operation can no longer be withdrawn"
        raise StateConflict(
            msg, code="REST-030", found=f"{asked.kind}, {asked.status}", hint="wait for its end, or cancel the run"
        )
    if run is not None and run.wanted is not None and run.wanted == _WITHDRAWN[asked.kind]:
        _wanted_again(act, asked, run.job_id)


def _wanted_again(act: Act, asked: Row[Any], job_id: int) -> None:
    its_run = execution.c.execution_id == asked.target, execution.c.status.in_(OWNED)
    act.connection.execute(update(execution).where(*its_run).values(wanted=None, wanted_at=None))
    if asked.kind in STOP_MODES:
        streams = job_definition.c.id == job_id, job_definition.c.job_type == "STREAMING"
        act.connection.execute(update(job_definition).where(*streams).values(desired="RUNNING"))


def _raced() -> StateConflict:
    msg = "the run moved on while it was asked"
    return StateConflict(msg, code="CTL-038", found="another state", hint="look at it, and ask again")
