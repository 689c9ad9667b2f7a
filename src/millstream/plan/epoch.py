"""The epoch plan: everything an epoch needs, decided before it runs. It is the offset that Spark logs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from millstream.model.time import MAX_TIME, MIN_TIME

_LATER_FIELDS = {"combined", "previous_combined", "paused", "dropped", "jumps", "conflated", "replayed", "replays"}
"""Fields that plans of earlier versions do not have: empty, they do not count, so that such a plan keeps its digest."""


class SavepointRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Export the state of this epoch."""

    id: str
    path: str
    """The savepoint's own directory."""
    ends: bool = False
    """Whether the run ends behind it."""


class EpochPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch: how far each source is read, its clock and its watermarks.

    A replayed epoch sees the same plan, hence the same rows, the same clock and the same watermarks.
    """

    epoch: int
    now: int
    sources: dict[str, Any]
    """End position per source."""
    watermarks: dict[str, int] = {}
    """Per event-time step: every row up to then, that instant included, was there before this epoch."""
    previous: dict[str, int] = {}
    """The watermarks of the epoch before."""
    combined: dict[str, int] = {}
    """Per event-time steps that one vertex sees together, by their ids: the watermark it follows."""
    previous_combined: dict[str, int] = {}
    """The same of the epoch before."""
    finished: list[str] = []
    """Sources that will give nothing more."""
    paused: list[str] = []
    """Sources, and partitions as `source/partition`, that are not read because they are ahead of their alignment group."""
    dropped: dict[str, dict[str, int]] = {}
    """Per source and reason: rows that its position jumps over in this epoch. They are never read."""
    jumps: dict[str, Any] = {}
    """Per source that drops what waits: where it goes on behind this epoch, instead of where the epoch ends."""
    conflated: list[str] = []
    """Sources of which this epoch keeps the newest row per key of each split."""
    replayed: dict[str, str] = {}
    """Per step, by uid: how far the requests to replay its dead letters are served behind this epoch."""
    replays: dict[str, str] = {}
    """Per step, by uid: the request that this epoch serves, by the position behind it."""
    terminal: bool = False
    """The last epoch: no rows, watermarks at the end of time."""
    follows: str = ""
    """Digest of the plan before: epochs form a chain."""
    savepoint: SavepointRequest | None = None

    def to_json(self) -> dict[str, Any]:
        """The plan as the JSON value Spark logs."""
        value: dict[str, Any] = msgspec.to_builtins(self)
        return value

    @property
    def reached(self) -> dict[str, Any]:
        """Where each source goes on behind this epoch."""
        return {**self.sources, **self.jumps}

    @property
    def digest(self) -> str:
        """Hash of the plan: equal digests mean equal rows."""
        content = {name: value for name, value in self.to_json().items() if value or name not in _LATER_FIELDS}
        return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def plan_from_json(value: Any) -> EpochPlan:
    """Read a plan as Spark logged it."""
    return msgspec.convert(value, EpochPlan)


class EpochTimes(msgspec.Struct, frozen=True):
    """The clock and watermarks one vertex sees in an epoch."""

    now: int
    before: int
    """Watermark until the epoch advances it."""
    watermark: int
    terminal: bool


def times_for(plan: EpochPlan, event_time: Iterable[str]) -> EpochTimes:
    """What a vertex sees that depends on these event-time steps; the end of time in the terminal epoch."""
    steps = list(event_time)
    before = _together(steps, plan.previous, plan.previous_combined)
    watermark = MAX_TIME if plan.terminal else _together(steps, plan.watermarks, plan.combined)
    return EpochTimes(plan.now, before, watermark, plan.terminal)


def _together(steps: list[str], watermarks: dict[str, int], combined: dict[str, int]) -> int:
    """The watermark decided for these steps together, else the lowest of them."""
    lowest = min((watermarks.get(step, MIN_TIME) for step in steps), default=MIN_TIME)
    return combined.get(combined_name(steps), lowest) if len(steps) > 1 else lowest


def combined_name(steps: Iterable[str]) -> str:
    """How a plan names steps that are seen together."""
    return " ".join(sorted(steps))
