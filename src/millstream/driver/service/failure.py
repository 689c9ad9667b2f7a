"""An error as a report tells it: its fields, whose affair it is, whether it may pass, and whether memory ran out."""

from __future__ import annotations

import re
from typing import Any

from millstream.errors import MillstreamError
from millstream.redaction import redacted

_OUT_OF_MEMORY = re.compile(r"OutOfMemoryError|MemoryError|Cannot allocate memory|out of memory|exit code 3\b|CTL-120")


def error_facts(problem: BaseException) -> dict[str, Any]:
    """An error as plain values."""
    if isinstance(problem, MillstreamError):
        facts: dict[str, Any] = {**problem.fields(), "domain": problem.domain, "retry": problem.retry}
    else:
        is_outside = isinstance(problem, (OSError, MemoryError))
        facts = {"message": redacted(f"{type(problem).__name__}: {problem}"), "code": MillstreamError.code}
        facts |= {"step": None, "found": None, "known": None, "hint": None}
        facts |= {"domain": "external" if is_outside else "internal", "retry": "backoff" if is_outside else "never"}
    return {**facts, "kind": type(problem).__name__, "oom": is_out_of_memory(problem)}


def is_out_of_memory(problem: BaseException | None) -> bool:
    """Whether an error, or one that it came of, says that memory ran out."""
    while problem is not None:
        if isinstance(problem, MemoryError) or _OUT_OF_MEMORY.search(str(problem)):
            return True
        problem = problem.__cause__ or problem.__context__
    return False
