"""The error tree: every error says what failed, what was found, what is known, and how to fix it."""

from __future__ import annotations

from typing import Any, Literal, Self

from millstream.redaction import redacted

Domain = Literal["user", "external", "internal"]
Retry = Literal["never", "backoff"]


class MillstreamError(Exception):
    """Base of all errors; its fields travel unchanged to logs, the CLI and reports, so passwords are left out of them here.

    Args:
        message: what failed and what was found.
        code: stable identifier such as `PLAN-012`.
        step: id of the step concerned, if there is one.
        found: the offending value, as text.
        known: what would have been accepted.
        hint: what to do, ending in the argument or command that fixes it.
    """

    code = "MS-000"
    domain: Domain = "internal"
    retry: Retry = "never"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        step: str | None = None,
        found: object = None,
        known: object = None,
        hint: str | None = None,
    ) -> None:
        self.message = redacted(message)
        self.code = code or type(self).code
        self.step = step
        self.found = None if found is None else redacted(str(found))
        self.known = None if known is None else redacted(_listing(known))
        self.hint = None if hint is None else redacted(hint)
        super().__init__(self._text())

    def _text(self) -> str:
        parts = [f"step {self.step!r}: {self.message}" if self.step else self.message]
        if self.found is not None:
            parts.append(f"found {self.found}")
        if self.known is not None:
            parts.append(f"known: {self.known}")
        if self.hint:
            parts.append(self.hint)
        return f"[{self.code}] " + "; ".join(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.fields())

    def of_step(self, step: str, *, instead: bool = False) -> Self:
        """The same error, with the step it is of: threads and values do not know it; `instead` of what they call it."""
        fields = self.fields()
        message = fields.pop("message") or ""
        return type(self)(message, **{**fields, "step": step if instead else self.step or step})

    def fields(self) -> dict[str, str | None]:
        """The parts of the error as plain values."""
        return {
            "message": self.message,
            "code": self.code,
            "step": self.step,
            "found": self.found,
            "known": self.known,
            "hint": self.hint,
        }


def _listing(known: object) -> str:
    if isinstance(known, str):
        return known
    if isinstance(known, (list, tuple, set, frozenset, dict)):
        return ", ".join(sorted(map(str, known))) or "nothing"
    return str(known)


def _rebuild(kind: type[MillstreamError], fields: dict[str, Any]) -> MillstreamError:
    message = fields.pop("message")
    return kind(message, **fields)


class InvalidStep(MillstreamError, ValueError):
    """A step, option or reference that cannot be built."""

    code = "STEP-001"
    domain: Domain = "user"


class InvalidCall(InvalidStep, TypeError):
    """Arguments that do not fit the function called."""

    code = "PLAN-060"


class InvalidSchema(MillstreamError, TypeError):
    """A schema that cannot be understood, or rows that do not fit one."""

    code = "SCHEMA-001"
    domain: Domain = "user"


class InvalidExpression(MillstreamError, ValueError):
    """Expression text that does not parse, is not allowed, or does not type-check."""

    code = "EXPR-001"
    domain: Domain = "user"


class InvalidPlan(MillstreamError, ValueError):
    """A graph or plan that cannot run as asked; collects every problem found."""

    code = "PLAN-001"
    domain: Domain = "user"


class StepFailed(MillstreamError, RuntimeError):
    """User code or a bad record stopped a step; names the user's file and line."""

    code = "RUN-001"
    domain: Domain = "user"


class ExternalFailure(MillstreamError, RuntimeError):
    """A system outside millstream failed or is missing."""

    code = "EXT-001"
    domain: Domain = "external"
    retry: Retry = "backoff"


class CheckpointRefused(MillstreamError, RuntimeError):
    """A checkpoint that cannot be used safely: wrong checksum, other plan, other rows."""

    code = "CKPT-001"
    domain: Domain = "user"


class Fenced(MillstreamError, RuntimeError):
    """Another owner took over: this one may publish nothing more and ends."""

    code = "CKPT-020"
    domain: Domain = "external"


class UnknownName(MillstreamError, LookupError):
    """A job, run, node or other thing that is not there, or that the asker may not know of."""

    code = "CTL-010"
    domain: Domain = "user"


class StateConflict(MillstreamError, RuntimeError):
    """The thing is there, but not in a state in which that can be done, or another has done it before."""

    code = "CTL-011"
    domain: Domain = "user"


class StaleVersion(MillstreamError, RuntimeError):
    """The asker had seen an older version than the one that is to be changed."""

    code = "CTL-012"
    domain: Domain = "user"


class RequestRefused(MillstreamError, ValueError):
    """A request to the service that it does not take: who asks, how it is asked, or how often."""

    code = "REST-006"
    domain: Domain = "user"
