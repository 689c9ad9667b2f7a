"""What changed between two layouts of one step, and whether the new one can go on from the old one's pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from millstream.graph.operations.rank import Deduplicate, Order, order_of
from millstream.graph.stored_type import schema_text
from millstream.graph.windows.window import duration_text
from millstream.state.compat.type_changes import NOTHING, Change, Verdict, type_changes
from millstream.state.layout import SlotLayout, StateLayout

_FIXED = ("operation", "form", "keys", "key_groups")
"""What state cannot outlive: pages are placed and encoded by it."""


def layout_changes(old: StateLayout, new: StateLayout, migrations: Collection[str]) -> list[Change]:
    """Every change of a step's state; empty when its pages are read as they are.

    Args:
        old: the layout that was stored.
        new: the layout of the job that is to go on.
        migrations: the states of the job that declare `migrate=`.
    """
    changes = [
        _change(name, str(was), str(now), "incompatible")
        for name in _FIXED
        if (was := getattr(old, name)) != (now := getattr(new, name))
    ]
    if old.operation == new.operation:
        changes += [] if _keep_alike(old, new) else _setting_changes(old.settings, new.settings)
    if not changes and old.form == "columns":
        changes += _column_changes(old, new)
    if old.operation == new.operation and old.form == new.form == "entries":
        # An operator of ours keeps what its settings say; a changed type would only repeat that.
        changes += [] if changes and old.settings != new.settings else _slots(old, new, migrations)
    return changes


def _keep_alike(old: StateLayout, new: StateLayout) -> bool:
    """Whether the last row in an order is kept where it was the first in the opposite one: they differ in equal rows alone."""
    if old.operation != Deduplicate.kind or None in (old.settings.get("by"), new.settings.get("by")):
        return False
    return _kept_first(old.settings) == _kept_first(new.settings)


def _kept_first(settings: dict[str, Any]) -> Order:
    """The order whose first row is kept."""
    is_last = settings["keeps"] == "last"
    return tuple((name, is_down != is_last) for name, is_down in order_of(settings["by"]))


def _change(field: str, old: str, new: str, verdict: Verdict, *, is_rewritten: bool = False) -> Change:
    return Change(field=field, old=old, new=new, verdict=verdict, is_rewritten=is_rewritten)


def _setting_changes(old: dict[str, Any], new: dict[str, Any], path: str = "") -> Iterator[Change]:
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if isinstance(was, dict) and isinstance(now, dict):
            yield from _setting_changes(was, now, f"{name} ")
        elif was != now:
            yield _change(f"{path}{name}", _setting(path, name, was), _setting(path, name, now), "incompatible")


def _setting(path: str, name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    # The numbers of a window are milliseconds, but for rows.
    is_time = isinstance(value, int) and bool(path) and not name.endswith("rows")
    return duration_text(value) if is_time else NOTHING if value is None else str(value)


def _column_changes(old: StateLayout, new: StateLayout) -> list[Change]:
    """Columns differ although keys and aggregates do not: a hidden one, as event time, came or went."""
    before, after = ({field.name: str(field.type) for field in each.column_schema} for each in (old, new))
    return [
        _change(f"column {name}", before.get(name, NOTHING), after.get(name, NOTHING), "incompatible")
        for name in [*before, *(name for name in after if name not in before)]
        if before.get(name) != after.get(name)
    ]


def _slots(old: StateLayout, new: StateLayout, migrations: Collection[str]) -> Iterator[Change]:
    before, after = ({slot.name: slot for slot in layout.slots} for layout in (old, new))
    for name, slot in before.items():
        if name in after:
            yield from _slot(slot, after[name], is_migrated=name in migrations)
        else:
            yield _change(name, schema_text(slot.type), NOTHING, "dropped", is_rewritten=True)
    for name, slot in after.items():
        if name not in before:
            yield _change(name, NOTHING, schema_text(slot.type), "compatible", is_rewritten=True)
    kept = [[name for name in one if name in other] for one, other in ((before, after), (after, before))]
    if kept[0] != kept[1]:
        yield _change("order of states", ", ".join(kept[0]), ", ".join(kept[1]), "compatible", is_rewritten=True)


def _slot(old: SlotLayout, new: SlotLayout, *, is_migrated: bool) -> Iterator[Change]:
    """One state: its type, its version, and whether it expires."""
    is_raised = new.version > old.version
    changes = type_changes(old.type, new.type, new.name)
    if is_raised and is_migrated:
        yield _change(
            f"{new.name} version", str(old.version), f"{new.version}, migrated", "compatible", is_rewritten=True
        )
        yield from (_change(c.field, c.old, c.new, "compatible", is_rewritten=True) for c in changes)
    else:
        yield from changes
        if old.version != new.version:
            is_needed = any(change.verdict == "incompatible" for change in changes)
            now = f"{new.version} without migrate=" if is_raised and is_needed else str(new.version)
            is_refused = not is_raised or is_needed
            yield _change(f"{new.name} version", str(old.version), now, "incompatible" if is_refused else "compatible")
    if old.kind != new.kind:
        yield _change(f"{new.name} kind", old.kind, new.kind, "compatible")
    if old.expires != new.expires:
        ways = {True: "expires", False: "stays"}
        yield _change(f"{new.name} ttl", ways[old.expires], ways[new.expires], "compatible", is_rewritten=True)
    elif old.clock != new.clock:
        yield _change(f"{new.name} ttl_clock", old.clock, new.clock, "compatible", is_rewritten=True)
