"""Dead letters as the service knows them: which are meant, carrying out what was asked, and writing down what was replayed."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Row, select, update

from millstream.contract.stored_questions import LetterFilter
from millstream.control.act import Act, acting
from millstream.control.dispatcher.stopping import run_of
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import operation
from millstream.control.metadata.tables.runs import dead_letter, execution
from millstream.control.operations import done, failed, handed_on
from millstream.control.stored.places import newest_run
from millstream.control.stored.questions import ChannelQuestion, LettersAsked
from millstream.errors import InvalidStep, MillstreamError

KINDS = {"replay": "replay_letters", "purge": "purge_letters"}
_AGAIN = dt.timedelta(minutes=5)
"""Who took it and has not ended it by then has ended himself; both acts can be done twice."""
_AT_ONCE = 20
_TRIES = 5
_BUSY = "CTL-140"
_MOST_EPOCHS = 10_000
_log = logging.getLogger(__name__)


def asked_about(act: Act, *, job: str | None, run: str | None) -> str:
    """The run whose letters, and those of its job before it, are meant: the newest of a job.

    Raises:
        InvalidStep: (CTL-147) neither or both were named.
    """
    if (job is None) == (run is None):
        msg = "say whose bad records are meant"
        raise InvalidStep(msg, code="CTL-147", known="job, run", hint="name one of the two")
    row = run_of(act, run) if run is not None else newest_run(act, job or "")
    # Whichever run is meant, the job is asked as it is now: a later run may hold its checkpoint.
    found: str = newest_run(act, row.job_name).execution_id
    return found


def filter_of(
    act: Act,
    run: str,
    *,
    of_run: bool,
    step: str | None = None,
    reason: str | None = None,
    error: str = "",
    ids: Sequence[str] | None = None,
) -> LetterFilter:
    """Which letters are meant; those of one run by the clocks of its epochs, which letters bear."""
    times = _times(act, run) if of_run else None
    return LetterFilter(step=step, reason=reason, error=error, ids=list(ids or ()), times=times)


def _times(act: Act, run: str) -> list[int]:
    mine = dead_letter.c.execution_id == run_of(act, run).execution_id
    found = select(dead_letter.c.create_time).where(mine).order_by(dead_letter.c.id.desc()).limit(_MOST_EPOCHS)
    return sorted({round(at.timestamp() * 1000) for at in act.connection.execute(found).scalars()})


class LetterActs:
    """Carries out replays and removals that people asked for: by asking the node that sees the letters."""

    def __init__(
        self,
        metadata: Metadata,
        ask: Callable[[ChannelQuestion], dict[str, Any]],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._metadata, self._ask, self._sleep = metadata, ask, sleep

    def round(self) -> int:
        """Carry out what is open; says how many."""
        with acting(self._metadata) as act:
            taken = [each for each in _open(act) if each.status == "running" or handed_on(act, each.id)]
        for each in taken:
            self._carry_out(each)
        return len(taken)

    def _carry_out(self, row: Row[Any]) -> None:
        try:
            told = self._told(msgspec.convert(row.result["wish"]["letters"], LettersAsked))
        except MillstreamError as problem:
            _log.info("operation %s failed: %s", row.id, problem)
            with acting(self._metadata) as act:
                failed(act, row.id, problem.fields())
            return
        settled = told.pop("done", [])
        with acting(self._metadata) as act:
            for each in settled:
                _replayed(act, row, each["step"], each["at"])
            done(act, row.id, **told)

    def _told(self, asked: LettersAsked) -> dict[str, Any]:
        for tried in range(_TRIES):
            try:
                return self._ask(asked)
            except MillstreamError as problem:
                if problem.code != _BUSY or tried == _TRIES - 1:
                    raise
            self._sleep(2.0**tried)
        msg = "the loop above returns or raises"
        raise AssertionError(msg)


def _open(act: Act) -> list[Row[Any]]:
    is_left = (operation.c.status == "running") & (operation.c.create_time <= act.now - _AGAIN)
    is_open = operation.c.kind.in_(KINDS.values()), (operation.c.status == "pending") | is_left
    return list(
        act.connection.execute(select(operation).where(*is_open).order_by(operation.c.create_time).limit(_AT_ONCE))
    )


def _replayed(act: Act, asked: Row[Any], steps: list[str], times: list[int]) -> None:
    """Rows of the index whose letters were all asked for: by which operation."""
    job = select(execution.c.job_id).where(execution.c.execution_id == asked.target).scalar_subquery()
    runs = select(execution.c.execution_id).where(execution.c.job_id == job)
    settled = {dt.datetime.fromtimestamp(at / 1000, dt.UTC) for at in times}
    open_rows = (
        dead_letter.c.execution_id.in_(runs),
        dead_letter.c.step_uid.in_(steps),
        dead_letter.c.replayed_by.is_(None),
    )
    rows = act.connection.execute(select(dead_letter.c.id, dead_letter.c.create_time).where(*open_rows)).all()
    numbers = [row.id for row in rows if row.create_time in settled]
    for begin in range(0, len(numbers), 500):
        part = dead_letter.c.id.in_(numbers[begin : begin + 500])
        act.connection.execute(update(dead_letter).where(part).values(replayed_by=asked.id))
