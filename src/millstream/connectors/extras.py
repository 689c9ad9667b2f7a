"""Libraries that only some connectors need: what to say where one is missing."""

from __future__ import annotations

from millstream.errors import InvalidStep


def missing_extra(problem: ModuleNotFoundError, *, extra: str) -> InvalidStep:
    """The error for a library that an extra of this package brings."""
    msg = f"the library {problem.name!r} is not installed"
    hint = f"pip install 'millstream[{extra}]', where the job is built and on the workers"
    return InvalidStep(msg, code="CONN-010", hint=hint)
