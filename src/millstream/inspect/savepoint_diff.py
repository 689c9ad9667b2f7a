"""What differs between two savepoints, from their records alone: steps, layouts, entries, source positions, watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from millstream.checkpoint.savepoint import Savepoint

Presence = Literal["both", "only in a", "only in b"]


class StepDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One keyed step in two savepoints."""

    uid: str
    presence: Presence
    entries: tuple[int, int]
    """Keys (or stored rows) in a and in b."""
    layout: list[str] = []
    """What changed in the layout, in words."""


class SavepointDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Two savepoints side by side; pairs are (a, b), `None` where one has nothing."""

    general: dict[str, tuple[Any, Any]]
    """Fields of identity that differ."""
    steps: list[StepDifference]
    sources: dict[str, tuple[Any, Any]]
    """Positions that differ."""
    watermarks: dict[str, tuple[Any, Any]]
    """Watermarks that differ."""


_GENERAL = ("job", "lineage", "epoch", "kind", "guarantee", "fingerprint", "parallelism", "key_groups", "engine")


def diff_savepoints(a: Savepoint, b: Savepoint) -> SavepointDifference:
    """Compare two savepoints; every keyed step is listed, everything else only where it differs."""
    uids = sorted(a.layouts.keys() | b.layouts.keys())
    return SavepointDifference(
        general={
            name: (getattr(a, name), getattr(b, name)) for name in _GENERAL if getattr(a, name) != getattr(b, name)
        },
        steps=[_step(uid, a, b) for uid in uids],
        sources=_differing(a.plan.get("sources", {}), b.plan.get("sources", {})),
        watermarks=_differing(a.plan.get("watermarks", {}), b.plan.get("watermarks", {})),
    )


def layout_changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """How one layout became another, in words."""
    changes = [
        f"{name}: {a.get(name)!r} became {b.get(name)!r}"
        for name in sorted(a.keys() | b.keys())
        if name != "slots" and a.get(name) != b.get(name)
    ]
    slots_a, slots_b = ({slot["name"]: slot for slot in layout.get("slots", ())} for layout in (a, b))
    changes += [f"slot {name!r} is gone" for name in slots_a if name not in slots_b]
    changes += [f"slot {name!r} is new" for name in slots_b if name not in slots_a]
    for name in slots_a:
        if name in slots_b:
            pairs = _differing(slots_a[name], slots_b[name])
            changes += [f"slot {name!r}, {field}: {x!r} became {y!r}" for field, (x, y) in pairs.items()]
    kept = [[name for name in slots if name in slots_a and name in slots_b] for slots in (slots_a, slots_b)]
    return [*changes, "slots stand in another order"] if kept[0] != kept[1] else changes


def _step(uid: str, a: Savepoint, b: Savepoint) -> StepDifference:
    in_a, in_b = a.layouts.get(uid), b.layouts.get(uid)
    presence: Presence = "only in b" if in_a is None else "only in a" if in_b is None else "both"
    return StepDifference(
        uid=uid,
        presence=presence,
        entries=(a.entries(uid), b.entries(uid)),
        layout=[] if in_a is None or in_b is None else layout_changes(in_a, in_b),
    )


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (a.get(name), b.get(name)) for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)}
