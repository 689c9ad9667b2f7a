"""What a login gave: a token, until when it is used, and perhaps the refresh token that takes the place of the one before."""

from __future__ import annotations

import dataclasses
from typing import Any

from millstream.connectors.http.asking.auth import AuthRules
from millstream.connectors.http.paging.pages import HttpAnswer, json_of
from millstream.connectors.http.paging.paths import found_at
from millstream.errors import StepFailed

_EARLY_MS = 30_000
"""So long before it ends an access token is replaced, or when half of a short life is over."""


@dataclasses.dataclass(frozen=True, slots=True)
class ObtainedToken:
    """What a login gave; `until`, in milliseconds since 1970, it is used: `None` when the answer does not say."""

    value: str
    until: int | None = None
    refresh_token: str | None = None

    def __repr__(self) -> str:
        return "ObtainedToken(***)"


def obtained_token(rules: AuthRules, answer: HttpAnswer, now: int) -> ObtainedToken:
    """What the answer to a login gave.

    Raises:
        StepFailed: (HTTP-015) it gave nothing.
    """
    document = json_of(answer)
    if rules.cookie is not None:
        found: Any = _cookie(answer.headers.get("set-cookie", ""), rules.cookie)
    elif rules.response_header is not None:
        found = answer.headers.get(rules.response_header.lower())
    else:
        found = found_at(document, rules.path or ())
    if not isinstance(found, str) or not found:
        msg = "the answer to the login holds no token"
        known = rules.cookie or rules.response_header or ".".join(rules.path or ())
        hint = "correct auth=: 'path', 'response_header' or 'cookie' says where it stands"
        raise StepFailed(msg, code="HTTP-015", known=known, hint=hint)
    seconds = found_at(document, ("expires_in",))
    fresh = found_at(document, ("refresh_token",))
    life = round(float(seconds) * 1000) if _is_number(seconds) else None
    until = None if life is None else now + max(life - _EARLY_MS, life // 2)
    return ObtainedToken(found, until, fresh if isinstance(fresh, str) and fresh else None)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and value.isdecimal())


def _cookie(header: str, name: str) -> str | None:
    """The value of a cookie that is set; several headers of that name are joined by line ends."""
    for line in header.split("\n"):
        first, _, _ = line.partition(";")
        found, equals, value = first.strip().partition("=")
        if equals and found == name:
            return value
    return None
