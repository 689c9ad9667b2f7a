"""What is said when a function of a user fails that a connector calls."""

from __future__ import annotations

from typing import NoReturn

from millstream.errors import ExternalFailure, MillstreamError, StepFailed
from millstream.graph.function import FunctionRef
from millstream.runtime.bad_records import user_line


def raise_failed(function: FunctionRef, problem: BaseException, *, step: str, code: str, hint: str) -> NoReturn:
    """Raise what a failed call is: our errors as they are, an `OSError` as something outside that is away, else a failed step."""
    if isinstance(problem, MillstreamError):
        raise problem
    text = f"{type(problem).__name__}: {problem}{user_line(problem)}"
    kind = ExternalFailure if isinstance(problem, OSError) else StepFailed
    raise kind(text, code=code, step=step, found=function.describe(), hint=hint) from problem
