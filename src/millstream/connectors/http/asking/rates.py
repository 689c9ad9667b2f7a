"""How often a server may be asked: a bucket of tokens per host, and what the server itself says about it. Clocks are arguments.

All instants are milliseconds since 1970.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import email.utils
from collections.abc import Mapping
from typing import Any, Literal

from millstream.connectors.http.nested import (
    Fields,
    above_zero,
    duration,
    filled_text,
    nested,
    optional_duration,
    time_span,
)
from millstream.model.connector import Option

_TEXT = (str, type(None))
_DURATION = (str, int, float)
_SECONDS_AT_MOST = 10_000_000
"""Larger numbers in a reset header are instants: so many seconds are a hundred days."""
_MILLISECONDS_FROM = 100_000_000_000

FIELDS: Fields = {
    "requests": Option(
        kind=(int, type(None)), default=None, doc="requests per `per` and host; none: no limit", check=above_zero
    ),
    "per": Option(kind=_DURATION, default="1s", doc="the time that `requests` are for", check=time_span),
    "burst": Option(
        kind=(int, type(None)), default=None, doc="requests at once; `requests` when not given", check=above_zero
    ),
    "concurrency": Option(kind=(int,), default=4, doc="slices that are fetched at the same time", check=above_zero),
    "attempts": Option(
        kind=(int,), default=5, doc="how often a page is asked for before the source fails", check=above_zero
    ),
    "backoff": Option(
        kind=_DURATION, default="1s", doc="the first wait before asking again; then twice as long", check=duration
    ),
    "max_backoff": Option(kind=_DURATION, default="1m", doc="the longest of these waits", check=duration),
    "retry_after": Option(
        kind=(str,), default="Retry-After", doc="the header that says how long to wait", check=filled_text
    ),
    "remaining": Option(
        kind=_TEXT, default=None, doc="the header that says how many requests are left", check=filled_text
    ),
    "reset": Option(kind=_TEXT, default=None, doc="the header that says when there are more", check=filled_text),
    "reset_unit": Option(
        kind=(str,),
        default="auto",
        choices=("auto", "seconds", "at", "at_ms"),
        doc="what that is: seconds from now, or an instant in seconds or milliseconds since 1970; found by size when not said",
    ),
    "max_wait": Option(
        kind=(*_DURATION, type(None)),
        default="10m",
        doc="a longer wait fails the source; none: any",
        check=optional_duration,
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class RateRules:
    """What the option `rate` says; durations in milliseconds."""

    requests: int | None
    per: int
    burst: int | None
    concurrency: int
    attempts: int
    backoff: int
    max_backoff: int
    retry_after: str
    remaining: str | None
    reset: str | None
    reset_unit: Literal["auto", "seconds", "at", "at_ms"]
    max_wait: int | None


def rates_of(value: Any) -> RateRules:
    """Read the option `rate`.

    Raises:
        ValueError: says what was expected.
    """
    fields = nested(FIELDS, value, what="rate")
    if fields["burst"] is not None and fields["requests"] is None:
        msg = "rate whose 'burst' comes with 'requests'"
        raise ValueError(msg)
    if (fields["remaining"] is None) != (fields["reset"] is None):
        msg = "rate with both 'remaining' and 'reset', or none of them"
        raise ValueError(msg)
    return RateRules(**fields)


@dataclasses.dataclass(frozen=True, slots=True)
class TokenBucket:
    """What is left of a host's requests, and when that was so; a fresh bucket is full."""

    left: float
    at: int


def taken(rules: RateRules, bucket: TokenBucket | None, now: int) -> tuple[TokenBucket | None, int]:
    """The bucket after one more request, and how many milliseconds that has to wait."""
    if rules.requests is None:
        return None, 0
    size, each = rules.burst or rules.requests, rules.per / rules.requests
    bucket = bucket or TokenBucket(size, now)
    left = min(float(size), bucket.left + max(0, now - bucket.at) / each) - 1
    return TokenBucket(left, max(now, bucket.at)), max(0, round(-left * each))


def asked_wait(rules: RateRules, headers: Mapping[str, str], now: int) -> int | None:
    """How many milliseconds an answer asks to wait before the next attempt; `None` when it does not say."""
    said = headers.get(rules.retry_after.lower())
    wait = None if said is None else _retry_after(said.strip(), now)
    return wait if wait is not None else quota_wait(rules, headers, now)


def quota_wait(rules: RateRules, headers: Mapping[str, str], now: int) -> int | None:
    """How many milliseconds until there are requests again; `None` while some are left, or when the answer does not say."""
    if rules.remaining is None or rules.reset is None:
        return None
    left, reset = _number(headers.get(rules.remaining.lower())), _number(headers.get(rules.reset.lower()))
    if left is None or reset is None or left > 0:
        return None
    return max(0, _until(rules.reset_unit, reset, now))


def _until(unit: str, reset: float, now: int) -> int:
    if unit == "auto":
        unit = "seconds" if reset <= _SECONDS_AT_MOST else "at" if reset < _MILLISECONDS_FROM else "at_ms"
    if unit == "seconds":
        return round(reset * 1000)
    return round(reset if unit == "at_ms" else reset * 1000) - now


def _retry_after(text: str, now: int) -> int | None:
    """Seconds, or a date as HTTP writes them; anything else says nothing."""
    seconds = _number(text)
    if seconds is not None:
        return max(0, round(seconds * 1000))
    try:
        instant = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)
    return max(0, round(aware.timestamp() * 1000) - now)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def backoff(rules: RateRules, attempt: int) -> int:
    """How many milliseconds to wait after an attempt, counted from 1, that failed for a reason that passes."""
    return min(rules.max_backoff, rules.backoff << min(attempt - 1, 30))
