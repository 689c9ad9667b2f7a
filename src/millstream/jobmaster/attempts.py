"""Runs a job again when something outside it failed, as often in a row as the job tolerates."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from millstream.api.running.control import RunControl
from millstream.api.running.result import RunResult
from millstream.errors import ExternalFailure, MillstreamError

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0


class Attempts(Protocol):
    """The attempts of one run."""

    result: RunResult | None
    """What the last attempt had done when it failed."""


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
    failures, epochs = 0, 0
    while True:
        try:
            result = _typed(once, attempts.result)
        except Exception as problem:
            control.failures += 1
            so_far = attempts.result
            if so_far is not None and so_far.epochs > epochs:
                failures, epochs = 0, so_far.epochs
            failures += 1
            if so_far is None or failures > tolerated or control.must_end or not _may_pass(problem):
                control.log.failed(problem)
                raise
            so_far.failures += 1
            control.log.restarts(problem, in_a_row=failures, tolerated=tolerated)
            time.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (failures - 1)))
        else:
            control.log.ended(result)
            return result


def _may_pass(problem: Exception) -> bool:
    return isinstance(problem, MillstreamError) and problem.retry == "backoff"


def _typed(once: Callable[[RunResult | None], RunResult], so_far: RunResult | None) -> RunResult:
    """A full disk or a broken file system is a failure of the surroundings like any other."""
    try:
        return once(so_far)
    except OSError as problem:
        msg = f"a file or the disk failed: {problem}"
        raise ExternalFailure(msg, code="RUN-014", hint="free space or mend it, then start the job again") from problem
