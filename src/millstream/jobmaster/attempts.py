"""Runs a job again when something outside it failed, as often in a row as the job tolerates."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from millstream.api.running.control import RunControl
from millstream.api.running.result import RunResult
from millstream.errors import ExternalFailure, MillstreamError
from millstream.jobmaster.run import Run

_FIRST_PAUSE = 0.2
"""Seconds before the second attempt; doubled with every further failure in a row."""
_LONGEST_PAUSE = 10.0


class Attempts:
    """The attempts of one run: each opens it anew and lets an engine work until the run has ended."""

    def __init__(self, open_run: Callable[..., Run], work: Callable[[Run], None]) -> None:
        """`open_run` takes the result so far as `result=`."""
        self._open_run, self._work = open_run, work
        self.result: RunResult | None = None
        """What the last attempt had done when it failed."""

    def once(self, result: RunResult | None) -> RunResult:
        """One attempt."""
        run = self._open_run(result=result)
        if run.makes_way:
            run.close()
            run = self._open_run(result=result)
        self.result = run.result
        with run:
            if run.makes_way:
                msg = "the last run is complete, but it is not known whether it left everything published"
                raise ExternalFailure(msg, code="RUN-026", hint="start the job again")
            if not run.is_complete:
                self._work(run)
        return run.result


@dataclasses.dataclass(frozen=True, slots=True)
class Again:
    """The run is started again, after a pause in seconds."""

    pause: float


@dataclasses.dataclass(frozen=True, slots=True)
class GiveUp:
    """The failure ends the run."""


def after_failure(problem: Exception, *, in_a_row: int, tolerated: int, can_go_on: bool) -> Again | GiveUp:
    """What follows a failure.

    Args:
        problem: what failed.
        in_a_row: failures without a published epoch between them, this one included.
        tolerated: how many of them are got over.
        can_go_on: whether the run had begun, and nobody asked it to end.
    """
    may_pass = isinstance(problem, MillstreamError) and problem.retry == "backoff"
    if not can_go_on or in_a_row > tolerated or not may_pass:
        return GiveUp()
    return Again(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (in_a_row - 1)))


def run_tolerant(
    once: Callable[[RunResult | None], RunResult], tolerated: int, attempts: Attempts, control: RunControl
) -> RunResult:
    """Call `once` until it returns; a failure that may pass is tolerated if fewer came in a row.

    Args:
        once: one attempt, given the result so far.
        tolerated: failures in a row, without a published epoch between them, that are got over.
        attempts: knows what the last attempt had done when it failed.
        control: a run that has to end is not started again.
    """
    in_a_row, epochs = 0, 0
    while True:
        try:
            result = _typed(once, attempts.result)
        except Exception as problem:
            control.failures += 1
            so_far = attempts.result
            if so_far is not None and so_far.epochs > epochs:
                in_a_row, epochs = 0, so_far.epochs
            in_a_row += 1
            can_go_on = so_far is not None and not control.must_end
            match after_failure(problem, in_a_row=in_a_row, tolerated=tolerated, can_go_on=can_go_on):
                case GiveUp():
                    control.log.failed(problem)
                    raise
                case Again(pause):
                    assert so_far is not None, "a run that goes on had begun"
                    so_far.failures += 1
                    control.log.restarts(problem, in_a_row=in_a_row, tolerated=tolerated)
                    time.sleep(pause)
        else:
            control.log.ended(result)
            return result


def _typed(once: Callable[[RunResult | None], RunResult], so_far: RunResult | None) -> RunResult:
    """A full disk or a broken file system is a failure of the surroundings like any other."""
    try:
        return once(so_far)
    except OSError as problem:
        msg = f"a file or the disk failed: {problem}"
        raise ExternalFailure(msg, code="RUN-014", hint="free space or mend it, then start the job again") from problem
