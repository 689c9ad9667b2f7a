"""Refusals of the REST interface itself: each code has its status here, and its words where it is raised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn

from millstream.errors import RequestRefused

STATUSES: Mapping[str, int] = {
    "REST-001": 404,
    "REST-002": 405,
    "REST-003": 413,
    "REST-004": 415,
    "REST-005": 400,
    "REST-006": 422,
    "REST-007": 422,
    "REST-008": 408,
    "REST-009": 400,
    "REST-010": 401,
    "REST-011": 403,
    "REST-012": 403,
    "REST-013": 401,
    "REST-014": 429,
    "REST-015": 429,
    "REST-016": 429,
    "REST-020": 428,
    "REST-022": 409,
    "REST-023": 422,
    "REST-024": 422,
    "REST-031": 409,
    "REST-052": 503,
    "REST-041": 429,
    "CKPT-016": 404,
    "CKPT-017": 404,
    "CTL-140": 503,
    "CTL-141": 422,
    "CTL-221": 401,
    "CTL-222": 401,
    "CTL-355": 413,
    "SAVE-010": 404,
    "SAVE-013": 404,
}


class HeadedRefusal(RequestRefused):
    """A refusal whose answer has headers of its own."""

    headers: Mapping[str, str] = {}


def refused(
    code: str,
    message: str,
    *,
    found: object = None,
    known: object = None,
    hint: str,
    headers: Mapping[str, str] | None = None,
) -> RequestRefused:
    """The refusal."""
    problem = HeadedRefusal(message, code=code, found=found, known=known, hint=hint)
    problem.headers = headers or {}
    return problem


def refuse(
    code: str,
    message: str,
    *,
    found: object = None,
    known: object = None,
    hint: str,
    headers: Mapping[str, str] | None = None,
) -> NoReturn:
    """Raise the refusal."""
    raise refused(code, message, found=found, known=known, hint=hint, headers=headers)


def refuse_for_now(code: str, message: str, *, hint: str, wait: float) -> NoReturn:
    """Raise a refusal that says in how many seconds to come back."""
    raise refused(code, message, hint=hint, headers={"Retry-After": str(math.ceil(wait))})
