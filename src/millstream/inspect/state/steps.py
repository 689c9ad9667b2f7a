"""The steps of stored state: what each keeps, how many keys, and how many of them differ between two states."""

from __future__ import annotations

import dataclasses
from typing import Any

from millstream.inspect.state.stored import StoredState, readable
from millstream.inspect.state.view import SIDE, state_diff
from millstream.state.layout import StateLayout


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DifferingKeys:
    """How many keys of a step are in one state alone, or other there than in the other."""

    step: str
    a: int
    b: int

    @property
    def is_none(self) -> bool:
        """Whether the step is the same in both."""
        return not (self.a or self.b)


def step_facts(state: StoredState, *, counted: bool) -> list[dict[str, Any]]:
    """Per step: its name, operation, key, what is kept for a key, and the number of keys if they are to be counted."""
    return [_facts(state, layout, counted=counted) for layout in state.layouts.values()]


def _facts(state: StoredState, layout: StateLayout, *, counted: bool) -> dict[str, Any]:
    slots = [slot.name for slot in layout.slots]
    if layout.form == "columns":
        slots = readable(layout.column_schema.empty_table(), layout).column_names
    names = {uid: step for step, uid in state.uids.items()}
    return {
        "step": names.get(layout.uid, layout.uid),
        "operation": layout.operation,
        "key": layout.keys,
        "state": ", ".join(slots),
        "keys": state.entries(layout.uid) if counted else None,
    }


def differences(a: StoredState, b: StoredState) -> list[DifferingKeys]:
    """One value per step of either state, also where nothing differs."""
    return [_compared(a, b, uid) for uid in [*a.layouts, *(uid for uid in b.layouts if uid not in a.layouts)]]


def _compared(a: StoredState, b: StoredState, uid: str) -> DifferingKeys:
    if uid not in a.layouts or uid not in b.layouts:
        in_a, in_b = (state.entries(uid) if uid in state.layouts else 0 for state in (a, b))
        return DifferingKeys(step=uid, a=in_a, b=in_b)
    sides = state_diff(a.step(uid), b.step(uid)).column(SIDE).to_pylist()
    return DifferingKeys(step=uid, a=sides.count("a"), b=sides.count("b"))
