"""Joins as the user writes them, checked and turned into steps."""

from __future__ import annotations

from typing import Any

from millstream.api.streams.choices import checked_how
from millstream.errors import InvalidStep
from millstream.graph.operations.join import HOWS, How, Join
from millstream.model.time import DurationLike, positive_ms, signed_ms

Bound = DurationLike
"""A duration; text and numbers may be negative, as in `'-5m'`."""


def join_operation(
    how: How,
    within: tuple[Bound, Bound] | None,
    where: str | None,
    prefix: str | None,
    keep: DurationLike | None,
) -> Join:
    """A join of two keyed streams as it stands in the plan."""
    lower, upper = (None, None) if within is None else bounds(within)
    return Join(
        how=checked_how(how, HOWS),
        lower=lower,
        upper=upper,
        where=where,
        prefix=prefix,
        keep=None if keep is None else positive_ms(keep, what="keep"),
    )


def bounds(within: Any) -> tuple[int, int]:
    """`('-5m', '10s')` in milliseconds."""
    if not isinstance(within, (tuple, list)) or len(within) != 2:
        msg = "within is a pair of a lower and an upper bound"
        raise InvalidStep(msg, code="STEP-080", found=repr(within), hint="write within=('-5m', '5m')")
    lower, upper = (signed_ms(bound, what="within") for bound in within)
    return lower, upper
