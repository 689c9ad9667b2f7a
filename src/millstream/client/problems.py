"""Answers that tell of an error become the same error here as on the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec

from millstream import errors
from millstream.errors import ExternalFailure, MillstreamError, RequestRefused

_KINDS: Mapping[str, type[MillstreamError]] = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, MillstreamError)
}
_BY_DOMAIN: Mapping[str, type[MillstreamError]] = {
    "user": RequestRefused,
    "external": ExternalFailure,
    "internal": MillstreamError,
}


def error_of(answer: httpx2.Response) -> MillstreamError:
    """The error that an answer tells of."""
    try:
        told = msgspec.json.decode(answer.content, type=dict[str, Any])
        return _error(told["code"], told["message"], told.get("details", {}), told)
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        msg = "the answer is not one of a Millstream service"
        hint = "check the address, and what stands between here and the service"
        return ExternalFailure(msg, code="REST-061", found=f"status {answer.status_code}", hint=hint)


def _error(code: str, message: str, details: dict[str, Any], told: dict[str, Any]) -> MillstreamError:
    kind = _KINDS.get(details.get("kind", "")) or _BY_DOMAIN[details.get("domain", "internal")]
    fields = {name: details.get(name) for name in ("step", "found", "known")}
    problem = kind(message, code=code, hint=told.get("how_to_fix"), **fields)
    problem.add_note(f"request {told.get('request_id', '?')}")
    return problem
