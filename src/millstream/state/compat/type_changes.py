"""Whether content written by one type can be read by another: a walk over two schemas that names every place of change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from millstream.graph.stored_type import TypeSchema, schema_text

Verdict = Literal["compatible", "dropped", "incompatible"]
NOTHING = "nothing"
_WIDENED = ({"type": "integer"}, {"type": "number"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference: where, what it was, what it is, and what follows."""

    field: str
    old: str
    new: str
    verdict: Verdict
    is_rewritten: bool = False
    """Whether stored pages must be written anew before the step can read them, or may rely on them."""

    def __str__(self) -> str:
        return f"{self.field}: {self.old} → {self.new}"


def type_changes(old: TypeSchema, new: TypeSchema, path: str) -> list[Change]:
    """What changed from one type to another; empty when they are the same. Paths look like `total.amount`."""
    return [] if old == new else list(_changes(old, new, path))


def _changes(old: TypeSchema, new: TypeSchema, path: str) -> Iterator[Change]:
    if old == new:
        return
    if new == {} or (old, new) == _WIDENED:
        yield _change(path, old, new, "compatible")
    elif "anyOf" in old or "anyOf" in new:
        yield from _union(old, new, path)
    elif "enum" in old and "enum" in new:
        is_kept = all(value in new["enum"] for value in old["enum"])
        yield _change(path, old, new, "compatible" if is_kept else "incompatible")
    elif "properties" in old and "properties" in new and old.get("tag") == new.get("tag"):
        yield from _object(old, new, path)
    elif "propertyNames" in old and old["propertyNames"] == new.get("propertyNames"):
        yield from _inside(old, new, "additionalProperties", f"{path}.*")
    elif "prefixItems" in old and "prefixItems" in new and old.get("tag") == new.get("tag"):
        yield from _row(old, new, path)
    elif "items" in old and "items" in new and "prefixItems" not in {*old, *new}:
        yield from _inside(old, new, "items", f"{path}[]")
    else:
        yield _change(path, old, new, "incompatible")


def _change(path: str, old: TypeSchema, new: TypeSchema, verdict: Verdict) -> Change:
    return Change(field=path, old=schema_text(old), new=schema_text(new), verdict=verdict)


def _inside(old: TypeSchema, new: TypeSchema, key: str, path: str) -> Iterator[Change]:
    """The items of a list, or the values of a map; bounds and uniqueness must not change."""
    if {**old, key: None} != {**new, key: None}:
        yield _change(path, old, new, "incompatible")
    else:
        yield from _changes(old[key], new[key], path)


def _union(old: TypeSchema, new: TypeSchema, path: str) -> Iterator[Change]:
    """Each arm of the old type must be readable as some arm of the new one; the best match says what changed."""
    arms = new.get("anyOf", [new])
    for arm in old.get("anyOf", [old]):
        by_arm = [list(_changes(arm, other, path)) for other in arms]
        readable = [changes for changes in by_arm if all(change.verdict == "compatible" for change in changes)]
        if not readable:
            nested = [c for c in by_arm if c and all(change.field != path for change in c)]
            yield from nested[0] if nested else [_change(path, old, new, "incompatible")]
            return
        yield from min(readable, key=len)
    if len(arms) != len(old.get("anyOf", [old])):
        yield _change(path, old, new, "compatible")


def _object(old: TypeSchema, new: TypeSchema, path: str) -> Iterator[Change]:
    before, after = old["properties"], new["properties"]
    for name in before:
        if name not in after:
            is_closed = new.get("additionalProperties") is False
            yield Change(
                field=f"{path}.{name}",
                old=schema_text(before[name]),
                new=f"{NOTHING}, and unknown fields are forbidden" if is_closed else NOTHING,
                verdict="incompatible" if is_closed else "compatible",
                # Otherwise the old value would come back when a field of that name is added again.
                is_rewritten=True,
            )
            continue
        yield from _changes(before[name], after[name], f"{path}.{name}")
        if name in new["required"] and name not in old["required"]:
            yield _needed(f"{path}.{name}", "optional", after[name])
    for name in after:
        if name not in before:
            yield _added(f"{path}.{name}", after[name], is_needed=name in new["required"])


def _row(old: TypeSchema, new: TypeSchema, path: str) -> Iterator[Change]:
    """Fields by position: they keep their place and name, and may be followed by new ones that have defaults."""
    before, after = old["prefixItems"], new["prefixItems"]
    for at, (was, now) in enumerate(zip(before, after, strict=False)):
        if was.get("title") != now.get("title"):
            yield Change(field=f"{path}[{at}]", old=_titled(was), new=_titled(now), verdict="incompatible")
            continue
        yield from _changes(_untitled(was), _untitled(now), _place(path, at, was))
        if old["minItems"] <= at < new["minItems"]:
            yield _needed(_place(path, at, was), "optional", now)
    for at, now in enumerate(after[len(before) :], len(before)):
        yield _added(_place(path, at, now), now, is_needed=at < new["minItems"])
    verdict: Verdict = "incompatible" if new.get("items") is False else "compatible"
    for at, was in enumerate(before[len(after) :], len(after)):
        place = _place(path, at, was)
        yield Change(field=place, old=schema_text(was), new=NOTHING, verdict=verdict, is_rewritten=True)


def _added(path: str, schema: TypeSchema, *, is_needed: bool) -> Change:
    if is_needed:
        return _needed(path, NOTHING, schema)
    return Change(field=path, old=NOTHING, new=f"{schema_text(schema)} with a default", verdict="compatible")


def _needed(path: str, old: str, schema: TypeSchema) -> Change:
    new = f"{schema_text(schema)} without a default"
    return Change(field=path, old=old, new=new, verdict="incompatible")


def _place(path: str, at: int, schema: TypeSchema) -> str:
    return f"{path}.{schema['title']}" if "title" in schema else f"{path}[{at}]"


def _titled(schema: TypeSchema) -> str:
    return f"{schema.get('title', 'unnamed')} ({schema_text(schema)})"


def _untitled(schema: TypeSchema) -> TypeSchema:
    return {key: value for key, value in schema.items() if key != "title"}
