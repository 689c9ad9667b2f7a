"""Restart rules: a failure and what came before it decide whether a run starts again, and when. Pure."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from millstream.errors import Domain, Retry

_LONGEST = 30 * 24 * 3600
Seconds = Annotated[float, msgspec.Meta(ge=0, le=_LONGEST)]
"""Up to thirty days: what is longer is no delay of a restart, and would overflow calendars."""
Strategy = Literal["none", "fixed_delay", "exponential_delay", "failure_rate"]
_MEMORY_FAILURES = 3
"""Out of memory that often in a row is not an accident."""
OUT_OF_MEMORY = "CTL-050"
"""The code of runs that ended because their memory did."""


class RestartRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As it stands in the settings of a job; times are seconds."""

    strategy: Strategy = "exponential_delay"
    delay: Seconds = 1.0
    """Of `fixed_delay` and `failure_rate`, and the first of `exponential_delay`."""
    max_delay: Seconds = 300.0
    factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 2.0
    jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.2
    reset_after: Seconds = 600.0
    """A run that went well for so long has its failures forgiven."""
    max_failures: Annotated[int, msgspec.Meta(ge=1)] = 3
    """Of `failure_rate`: that many in an interval are borne."""
    interval: Seconds = 300.0


class Failure(NamedTuple):
    """Why an attempt ended, as far as its restart is concerned."""

    at: dt.datetime
    domain: Domain
    retry: Retry
    code: str
    counts: bool = True
    """A node that was lost, a lease that ran out or a node that was drained is not the job's fault."""


class Verdict(NamedTuple):
    """Start again at `at`, or give up."""

    at: dt.datetime | None
    reason: str


def forgiven(rule: RestartRule, past: Sequence[dt.datetime], failed: dt.datetime) -> list[dt.datetime]:
    """The failures that still count: those behind the last quiet time, and for a rate those of its interval."""
    span = rule.interval if rule.strategy == "failure_rate" else rule.reset_after
    kept: list[dt.datetime] = []
    for before, after in itertools.pairwise([*past, failed]):
        age = (failed - before if rule.strategy == "failure_rate" else after - before).total_seconds()
        kept = [*kept, before] if age <= span else []
    return kept


def decide(
    rule: RestartRule,
    past: Sequence[dt.datetime],
    failure: Failure,
    *,
    retries: int,
    max_retries: int,
    draw: float,
    out_of_memory: int = 0,
) -> Verdict:
    """Whether a run starts again after a failure.

    Args:
        rule: of the job.
        past: when it failed before, oldest first, as far as that still counts.
        failure: the newest one.
        retries: how often it was started again since failures were last forgiven.
        max_retries: of the job; beyond that it is dead.
        draw: a number from 0 to 1, for the jitter.
        out_of_memory: how many failures right before this one were for want of memory.
    """
    if not failure.counts:
        return Verdict(failure.at, "not the job's fault: it starts again at once")
    if rule.strategy == "none":
        return Verdict(None, "the restart rule is none")
    if failure.retry == "never" and failure.domain == "user":
        return Verdict(None, f"{failure.code} stays the same however often it is tried")
    if failure.code == OUT_OF_MEMORY and out_of_memory + 1 >= _MEMORY_FAILURES:
        return Verdict(None, f"out of memory {out_of_memory + 1} times in a row: raise the memory of the job")
    if rule.strategy == "failure_rate":
        if len(past) + 1 > rule.max_failures:
            return Verdict(None, f"more than {rule.max_failures} failures in {rule.interval:g} s")
        return _after(failure.at, rule.delay, "within the failure rate")
    if retries >= max_retries:
        return Verdict(None, f"it was started again {retries} times, which is all that max_retry_times allows")
    delay = rule.delay if rule.strategy == "fixed_delay" else _growing(rule, len(past), draw)
    return _after(failure.at, delay, f"attempt {retries + 1} of {max_retries}")


def _growing(rule: RestartRule, failures: int, draw: float) -> float:
    # An exponent that large would overflow before it is cut.
    delay = min(rule.delay * rule.factor ** min(failures, 64), rule.max_delay)
    return min(delay * (1 + rule.jitter * (2 * draw - 1)), rule.max_delay)


def _after(at: dt.datetime, delay: float, reason: str) -> Verdict:
    return Verdict(at + dt.timedelta(seconds=delay), f"{reason}, in {delay:.1f} s")
