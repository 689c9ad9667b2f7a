"""Reports of drivers, written down: every one can come twice, and changes nothing the second time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import Row, select, update

from millstream.contract.driver_protocol import DriverReport
from millstream.control.act import Act
from millstream.control.dispatcher.reconcile import settle
from millstream.control.dispatcher.rescaling import go_on
from millstream.control.dispatcher.stopping import run_of
from millstream.control.lifecycle.moves import move, record
from millstream.control.lifecycle.states import OWNED, Status, is_legal
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import checkpoint, dead_letter, execution, run_event, savepoint
from millstream.control.metadata.upserts import insert_into
from millstream.control.nodes.claims import lease_name, release
from millstream.control.nodes.savepoint_views import recorded
from millstream.control.operations import done, failed, open_operations
from millstream.control.restart.failing import fail
from millstream.control.restart.rules import OUT_OF_MEMORY, Failure
from millstream.control.sights.sight import PLANNED
from millstream.control.texts import storable

StateData = Callable[[int], dict[str, Any] | None]
"""What the manifest of an epoch says, as the index keeps it."""
_ENDING = ("drain", "suspend", "cancel", "rescale")
"""Operations that are done when the run has ended, not when its driver answers."""
_BAD = ("failed", "skipped", "refused")
"""Records that were bad, whatever becomes of such."""
_TOLD = (Status.RESTORING, Status.RUNNING, Status.CHECKPOINTING)
"""Where a driver says that its run is; how it ended stands in its result."""
_KEPT_ROWS = 10
"""Epochs of one look that get a row: older ones would be pruned before anybody sees them."""


def looked(reports: list[DriverReport], look: StateData) -> dict[int, dict[str, Any] | None]:
    """What the manifests of those epochs say that get a row."""
    epochs = [report.body["epoch"] for report in reports if report.type == "epoch"]
    return {epoch: look(epoch) for epoch in epochs[-_KEPT_ROWS:]}


class ReportWriter:
    """Writes the reports of one run in the transaction of an act."""

    def __init__(self, act: Act, token: int, state_data: StateData) -> None:
        self._act, self._token, self._state_data = act, token, state_data

    def write(self, run: Row[Any], reports: list[DriverReport]) -> bool:
        """Take reports in their order; `False` says that the run is another's by now."""
        seq = (run.driver or {}).get("seq", 0) if (run.driver or {}).get("token") == self._token else 0
        fresh = [_storable(report) for report in reports if report.seq > seq]
        if not fresh:
            return True
        if not self._count(run, [report.body for report in fresh if report.type == "epoch"], fresh[-1].seq):
            return False
        epochs = [report for report in fresh if report.type == "epoch"]
        for report in epochs[-_KEPT_ROWS:]:
            self._epoch(run.execution_id, report)
        for report in fresh:
            self._one(run.execution_id, report)
        return True

    def _one(self, run: str, report: DriverReport) -> None:
        match report.type:
            case "state":
                self._state(run, report)
            case "graph":
                self._graph(run, report.body)
            case "answer":
                self._answer(run, report.body)
            case "dead_letters":
                self._dead_letters(run, report)
            case "result":
                end(self._act, run_of(self._act, run), self._token, report.body)

    def _count(self, run: Row[Any], epochs: list[dict[str, Any]], seq: int) -> bool:
        """Rows in the run's own row; the newest epoch stands there for lists of runs. `False`: it is another's by now.

        The row stays locked until all reports are written: nobody can take the run away between two of them.
        """
        values: dict[str, Any] = {"driver": {**(run.driver or {}), "token": self._token, "seq": seq}}
        if epochs:
            rows, newest = sum(each["rows_in"] for each in epochs), epochs[-1]
            bad = sum(
                counts.get(name, 0) for each in epochs for counts in each.get("counts", {}).values() for name in _BAD
            )
            values["processed_records"] = execution.c.processed_records + rows
            values["failed_records"] = execution.c.failed_records + bad
            values["throughput"] = round(newest["rows_in"] / max(newest["seconds"], 0.001), 2)
            names = ("epoch", "rows_in", "rows_out", "seconds", "lag", "watermark", "terminal")
            values["progress"] = {name: newest.get(name) for name in names}
        mine = execution.c.id == run.id, execution.c.token == self._token, execution.c.status.in_(OWNED)
        counted = update(execution).where(*mine).values(**values).returning(execution.c.id)
        return self._act.connection.execute(counted).first() is not None

    def _state(self, run: str, report: DriverReport) -> None:
        row, body = run_of(self._act, run), report.body
        after = Status.__members__.get(body["to"])
        cause = self._act.cause(body["cause"], **({"error": body["error"]} if body.get("error") else {}))
        if after in _TOLD and is_legal(Status(row.status), after):
            move(self._act.connection, run, Status(row.status), after, cause, now=self._act.now, token=self._token)
        elif after == Status.INITIALIZING:
            # Whether its process was there before it, and why.
            record(self._act.connection, run, "driver", cause, now=self._act.now, token=self._token)
        if body.get("error") and after == Status.RUNNING:
            record(self._act.connection, run, "restarted", cause, now=self._act.now, token=self._token)
        if body.get("error"):
            self._aborted(row, report)

    def _graph(self, run: str, body: dict[str, Any]) -> None:
        """For those who look when the run has ended, or after another process of the node took it over."""
        vertices = len(body.get("vertices", ()))
        cause = self._act.cause(f"{vertices} vertices at parallelism {body.get('parallelism')}", **body)
        record(self._act.connection, run, PLANNED, cause, now=self._act.now, token=self._token)

    def _aborted(self, run: Row[Any], report: DriverReport) -> None:
        """The epoch behind the newest that was published broke off; when it is done again, its row says so."""
        newest = (run.progress or {}).get("epoch")
        at = dt.datetime.fromtimestamp(report.at, dt.UTC)
        values = {"checkpoint_id": 0 if newest is None else newest + 1, "status": "FAILED", "create_time": at}
        error = {"error": report.body["error"]}
        self._insert(checkpoint, {**values, "execution_id": run.execution_id, "checkpoint_type": "CHECKPOINT",
                                  "token": self._token, "summary": error})  # fmt: skip

    def _epoch(self, run: str, report: DriverReport) -> None:
        """A row for an epoch; in the place of one that says that it broke off before."""
        values = self._epoch_row(run, report)
        again = {name: value for name, value in values.items() if name not in ("execution_id", "checkpoint_id")}
        key, is_failed = ["execution_id", "checkpoint_id"], checkpoint.c.status == "FAILED"
        added = insert_into(self._act.connection, checkpoint).values(**values)
        self._act.connection.execute(added.on_conflict_do_update(index_elements=key, set_=again, where=is_failed))

    def _epoch_row(self, run: str, report: DriverReport) -> dict[str, Any]:
        body, at = report.body, dt.datetime.fromtimestamp(report.at, dt.UTC)
        data = self._state_data(body["epoch"])
        return {
            "execution_id": run,
            "checkpoint_id": body["epoch"],
            "checkpoint_type": "CHECKPOINT",
            "status": "COMPLETED",
            "state_data": data,
            "storage_path": None if data is None else data.get("path"),
            "storage_size_bytes": body.get("size"),
            "create_time": at - dt.timedelta(seconds=body["seconds"]),
            "complete_time": at,
            "token": self._token,
            "phases": body.get("phases"),
            "summary": body,
        }

    def _insert(self, table: Any, values: dict[str, Any]) -> None:
        added = insert_into(self._act.connection, table).values(**values)
        self._act.connection.execute(added.on_conflict_do_nothing())

    def _answer(self, run: str, body: dict[str, Any]) -> None:
        if not body["done"]:
            failed(self._act, body["id"], body["error"])
            return
        if body.get("path") and "text" not in body:
            row = run_of(self._act, run)
            values = {"job_id": row.job_id, "execution_id": run, "trigger_id": body["id"], "path": body["path"]}
            times = {"create_time": self._act.now, "complete_time": self._act.now}
            self._insert(savepoint, {"format": "canonical", **values, **times, **recorded(body), "status": "READY"})
        if not any(each.id == body["id"] for each in open_operations(self._act, run, _ENDING)):
            done(self._act, body["id"], **{name: body[name] for name in ("path", "text") if body.get(name)})

    def _dead_letters(self, run: str, report: DriverReport) -> None:
        """By the clock of their epoch: the letters themselves bear it, too."""
        at = dt.datetime.fromtimestamp(report.body["now"] / 1000, dt.UTC)
        for step, count in report.body["steps"].items():
            values = {"execution_id": run, "epoch": report.body["epoch"], "step_uid": step, "count": count}
            self._insert(dead_letter, {**values, "reason": "dead_letter", "create_time": at})


def _storable(report: DriverReport) -> DriverReport:
    return msgspec.structs.replace(report, body=storable(report.body))


def end(act: Act, run: Row[Any], token: int, body: dict[str, Any]) -> None:
    """A driver has said how its run ended: the run moves there, its lease is free, and who waited is told."""
    if run.status not in OWNED or run.token != token:
        return
    match body["status"]:
        case "COMPLETED" | "SUSPENDED":
            _ended(act, run, token, Status(body["status"]), body)
        case "CANCELLED" if run.wanted == "cancel":
            _ended(act, run, token, Status.CANCELLED, body)
        case "CANCELLED":
            # Nobody asked for it here: the node was drained, the machine stopped, or memory ran short.
            failure = Failure(at=act.now, domain="external", retry="backoff", code="CTL-053", counts=False)
            fail(act, run, failure, f"the driver was stopped: {body['cause']}", token=token)
        case _:
            error = body.get("error") or {}
            code = OUT_OF_MEMORY if body.get("oom") else error.get("code", "MS-000")
            domain, retry = error.get("domain", "internal"), error.get("retry", "never")
            failure = Failure(at=act.now, domain=domain, retry=retry, code=code)
            fail(act, run, failure, _message(error), token=token)
    release(act, lease_name(run.job_id, run.slot_no), token)
    settle(act, run_of(act, run.execution_id))


def _message(error: dict[str, Any]) -> str:
    step = f"step {error['step']!r}: " if error.get("step") else ""
    more = "".join(f"; {name} {error[key]}" for name, key in (("found", "found"), ("fix:", "hint")) if error.get(key))
    return f"{step}{error.get('message', 'it failed')}{more}"


def _ended(act: Act, run: Row[Any], token: int, status: Status, body: dict[str, Any]) -> None:
    """A short run may end before its start was written down: it ran, all the same."""
    now = Status(run.status)
    if not is_legal(now, status):
        move(act.connection, run.execution_id, now, Status.RUNNING, act.cause("ran"), now=act.now, token=token)
        now = Status.RUNNING
    move(act.connection, run.execution_id, now, status, act.cause(body["cause"]), now=act.now, token=token)
    if status == Status.COMPLETED:
        act.connection.execute(
            update(job_definition).where(job_definition.c.id == run.job_id).values(desired="STOPPED")
        )
    _note_throughput(act, run.execution_id)
    result = body.get("result") or {}
    if status == Status.SUSPENDED:
        go_on(act, run, result.get("savepoint"))
    for each in open_operations(act, run.execution_id, ("drain", "suspend", "cancel")):
        done(act, each.id, status=status, savepoint=result.get("savepoint"))


def _note_throughput(act: Act, run: str) -> None:
    """Of the whole run: its last epoch has no rows as a rule."""
    began = select(run_event.c.time).where(run_event.c.execution_id == run, run_event.c.to_status == Status.RUNNING)
    at = act.connection.execute(began.order_by(run_event.c.seq).limit(1)).scalar()
    if at is None:
        return  # it was cancelled before it ran
    rows = act.connection.execute(
        select(execution.c.processed_records).where(execution.c.execution_id == run)
    ).scalar_one()
    value = round(rows / max((act.now - at).total_seconds(), 0.001), 2)
    act.connection.execute(update(execution).where(execution.c.execution_id == run).values(throughput=value))
