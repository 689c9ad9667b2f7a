"""A run that failed: what is written down of it, and what its restart rule makes of it, in one transaction."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from typing import Any

import msgspec
from sqlalchemy import Row, select

from millstream.control.act import Act
from millstream.control.lifecycle.moves import move
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.jobs import job_definition, job_version
from millstream.control.metadata.tables.runs import execution
from millstream.control.restart.rules import OUT_OF_MEMORY, Failure, RestartRule, Verdict, decide, forgiven
from millstream.control.texts import storable

_LONGEST = 4000
_LONGEST_CODE = 32


def fail(act: Act, run: Row[Any], failure: Failure, message: str, *, token: int | None) -> bool:
    """Move a run to FAILED, and on to its next attempt or its end; `False` where another was first."""
    past = [_read(each) for each in run.failures]
    rule, max_retries = _rule_of(act, run)
    kept = forgiven(rule, [at for at, _ in past], failure.at)
    retries = run.retry_count if len(kept) == len(past) else len(kept)
    told = run.failures[len(past) - len(kept) :]
    message = storable(message)[:_LONGEST]
    cause = act.cause(message, code=failure.code, domain=failure.domain)
    written = {
        "error_message": message,
        "error_code": storable(failure.code)[:_LONGEST_CODE],
        "error_class": failure.domain,
        "failures": [*told, _told(failure)] if failure.counts else told,
        "node_id": None,
        "driver": None,
    }
    moved = move(
        act.connection, run.execution_id, Status(run.status), Status.FAILED, cause, now=act.now, token=token, **written
    )
    if not moved:
        return False
    draw, memory = random.random(), _out_of_memory(past[len(past) - len(kept) :])
    verdict = decide(rule, kept, failure, retries=retries, max_retries=max_retries, draw=draw, out_of_memory=memory)
    _go_on(act, run, verdict, retries=retries + 1 if failure.counts else retries)
    return True


def _told(failure: Failure) -> str:
    return f"{failure.at.isoformat()} {storable(failure.code)[:_LONGEST_CODE]}"


def _read(told: str) -> tuple[dt.datetime, str]:
    """When a run failed before, and with which code, which runs of an earlier version have not."""
    at, _, code = told.partition(" ")
    return dt.datetime.fromisoformat(at), code


def _out_of_memory(past: list[tuple[dt.datetime, str]]) -> int:
    """How many of the newest failures were for want of memory, with no other one between them."""
    return sum(1 for _ in itertools.takewhile(lambda each: each[1] == OUT_OF_MEMORY, reversed(past)))


def _go_on(act: Act, run: Row[Any], verdict: Verdict, *, retries: int) -> None:
    """Where a run goes from FAILED; one that people asked to end is not tried again."""
    wanted = act.connection.execute(select(execution.c.wanted).where(execution.c.id == run.id)).scalar_one()
    after: Status = Status.SCHEDULED
    values: dict[str, Any] = {"retry_count": retries, "not_before": verdict.at}
    reason = verdict.reason
    if wanted is not None:
        after, values, reason = Status.CANCELLED, {}, f"it was to end by {wanted}: not tried again"
    elif verdict.at is None:
        after, values = Status.DEAD, {}
    move(act.connection, run.execution_id, Status.FAILED, after, act.cause(reason), now=act.now, **values)


def _rule_of(act: Act, run: Row[Any]) -> tuple[RestartRule, int]:
    version = job_version.c.job_id == run.job_id, job_version.c.version == run.job_version
    settings = act.connection.execute(select(job_version.c.settings).where(*version)).scalar_one()
    limit = select(job_definition.c.max_retry_times).where(job_definition.c.id == run.job_id)
    rule = msgspec.convert(settings.get("restart", {}), RestartRule)
    return rule, act.connection.execute(limit).scalar_one()
