"""Positions of an http source: which slices are under way and how far, and a place in the intake log. JSON values.

An entry of the log carries the change that its page makes. So the position behind an entry is the position before it with the
change made to it, whoever asks, also after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from millstream.connectors.http.nested import storable
from millstream.connectors.http.paging.answered import refuse_named
from millstream.connectors.http.paging.paths import Steps, found_at
from millstream.connectors.http.paging.slices import PARENT, DateSlices, ListSlices, children, slice_at, slice_name
from millstream.connectors.http.paging.turning import PagingPlan, SliceState, begun
from millstream.connectors.http.settings import SINCE, SourceSettings
from millstream.connectors.intake.files import ORIGIN, LogPlace, place_of

Change = dict[str, Any]
"""Fields of a position that are replaced; of `slices` only those named, where null is the end of one."""


class ApiPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a source has been read."""

    run: str = ""
    """The lineage that reads; another one that finds everything read may begin a further run."""
    log: tuple[str, int] = (ORIGIN.file, ORIGIN.offset)
    slices: dict[str, SliceState] = {}
    """By number: those that are known and not at their end."""
    made: int = 0
    """How many slices have a number."""
    cursor: int = 0
    """Where the next slice comes from: its number in a list, or its first instant."""
    until: int = 0
    """The end of steps of time."""
    parent: SliceState | None = None
    """How far parents have been read; `None` when there are none, or all are known."""
    since: Any = None
    """What this run has started from."""
    newest: Any = None
    """What a further run would start from."""

    @property
    def place(self) -> LogPlace:
        """The place in the log."""
        return place_of(self.log)


def position_of(stored: Mapping[str, Any]) -> ApiPosition:
    """Read a position."""
    return msgspec.convert(stored, ApiPosition)


def to_json(value: ApiPosition | SliceState) -> Any:
    """The JSON form of a position, or of a part of one, as it comes back from a log."""
    return msgspec.json.decode(msgspec.json.encode(value))


def beginning(settings: SourceSettings, run: str, now: int) -> ApiPosition:
    """The position before the first page."""
    since = None if settings.incremental is None else settings.incremental.start
    started = ApiPosition(run=run, since=since, newest=since)
    if isinstance(settings.slices, DateSlices):
        end = settings.slices.end
        return msgspec.structs.replace(started, cursor=settings.slices.start, until=now if end is None else end)
    return msgspec.structs.replace(started, parent=_parents(settings))


def _parents(settings: SourceSettings) -> SliceState | None:
    return None if settings.parent is None else begun(settings.parent, PARENT, {})


def is_finished(settings: SourceSettings, position: ApiPosition) -> bool:
    """Whether nothing will ever follow."""
    has_next = slice_at(settings.slices, position.cursor, position.until) is not None
    return not position.slices and position.parent is None and not has_next


def renewed(settings: SourceSettings, position: ApiPosition, run: str, now: int) -> ApiPosition:
    """The position as another lineage takes it over: the same, or where everything was read, the start of a further run.

    A further run reads what came since, if the options say by what that is known: steps of time until now, an incremental field,
    or a key that grows. Else nothing tells what is new, and the source stays at its end.
    """
    if position.run == run:
        return position
    taken = msgspec.structs.replace(position, run=run)
    if not is_finished(settings, position):
        return taken
    if isinstance(settings.slices, DateSlices) and settings.slices.end is None:
        cursor = max(settings.slices.start, position.until - settings.slices.look_back)
        return msgspec.structs.replace(taken, cursor=cursor, until=max(now, position.until), since=position.newest)
    if settings.incremental is not None or has_growing_key(settings):
        return msgspec.structs.replace(taken, cursor=0, since=position.newest, parent=_parents(settings))
    return taken


def has_growing_key(settings: SourceSettings) -> bool:
    """Whether the key of the last row tells where a further run starts: the source is one slice, paged by key."""
    is_one = isinstance(settings.slices, ListSlices) and len(settings.slices.values) == 1
    return settings.paging.paginator.kind == "keyset" and is_one and settings.incremental is None


def opened_slice(settings: SourceSettings, position: ApiPosition) -> Change | None:
    """The change that the next slice of a list or of time makes; `None` when there is none."""
    found = slice_at(settings.slices, position.cursor, position.until)
    if found is None:
        return None
    values, cursor = found
    state = numbered(settings.paging, values, position.since, is_keyed=has_growing_key(settings))
    return {"slices": {str(position.made): to_json(state)}, "made": position.made + 1, "cursor": cursor}


def numbered(paging: PagingPlan, values: Mapping[str, Any], since: Any, *, is_keyed: bool = False) -> SliceState:
    """A slice before its first page, with what this run starts from."""
    state = begun(paging, slice_name(values), values if since is None or is_keyed else {**values, SINCE: since})
    return msgspec.structs.replace(state, token=since) if is_keyed and since is not None else state


def known_children(settings: SourceSettings, position: ApiPosition, parents: Sequence[Any]) -> Change:
    """The change that a page of parents makes: each is a slice."""
    assert not isinstance(settings.slices, (ListSlices, DateSlices))
    states = [numbered(settings.paging, values, position.since) for values in children(settings.slices, parents)]
    numbers = range(position.made, position.made + len(states))
    slices = {str(number): to_json(state) for number, state in zip(numbers, states, strict=True)}
    return {"slices": slices, "made": position.made + len(states)}


def changed(position: ApiPosition, change: Change, place: LogPlace | None = None) -> ApiPosition:
    """The position with a change made to it, at a place of the log."""
    slices = dict(position.slices)
    for number, state in change.get("slices", {}).items():
        if state is None:
            slices.pop(number, None)
        else:
            slices[number] = msgspec.convert(state, SliceState)
    fields = {name: value for name, value in change.items() if name not in ("slices", "parent")}
    if "parent" in change:
        fields["parent"] = None if change["parent"] is None else msgspec.convert(change["parent"], SliceState)
    log = position.log if place is None else (place.file, place.offset)
    return msgspec.structs.replace(position, slices=slices, log=log, **fields)


def merged(first: Change, second: Change) -> Change:
    """Two changes as one."""
    slices = {**first.get("slices", {}), **second.get("slices", {})}
    return {**first, **second, **({"slices": slices} if slices else {})}


def newest_of(newest: Any, records: Sequence[Any], steps: Steps) -> Any:
    """The largest value of a field so far; values that cannot be compared with it are passed over.

    A whole number of more than 64 bits is text, so those of an incremental field, which are compared, are passed over too.
    """
    for record in records:
        value = storable(found_at(record, steps))
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if newest is None and (is_number or isinstance(value, str)):
            newest = value
        elif (is_number and isinstance(newest, (int, float))) or (isinstance(value, str) and isinstance(newest, str)):
            newest = max(newest, value)
    refuse_named(newest)
    return newest
