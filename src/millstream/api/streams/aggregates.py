"""Aggregates as the user writes them, checked and turned into operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.errors import InvalidStep
from millstream.graph.operations.aggregate import Aggregate, Emit, KeyedAggregate

EMITS: tuple[Emit, ...] = ("epoch", "row", "end")


def running_aggregate(aggregates: Mapping[str, Any], emit: Emit, step: str | None) -> KeyedAggregate:
    """Running aggregates per key."""
    if emit not in EMITS:
        msg = "unknown emit mode"
        raise InvalidStep(msg, code="STEP-070", step=step, found=repr(emit), known=EMITS, hint="correct emit=")
    return KeyedAggregate(aggregates=checked_aggregates(aggregates, step), emit=emit)


def checked_aggregates(aggregates: Mapping[str, Any], step: str | None) -> tuple[tuple[str, Aggregate], ...]:
    """Aggregates given as keyword arguments."""
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            msg = f"{name!r} is not an aggregate"
            raise InvalidStep(msg, code="STEP-073", step=step, found=repr(aggregate), hint=f"{name}=ms.sum('column')")
    return tuple(aggregates.items())
