"""Calls about what steps have stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from millstream.client.transport import Query, Transport, escaped


class StateStepInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A step that keeps state."""

    step: str
    operation: str
    key: str
    state: str
    keys: int | None


class StateStepsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """All of them at one epoch."""

    job: str
    epoch: int
    engine: str
    steps: list[StateStepInfo]


class StateEntryInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored for a key; `cut` names values that are longer than 64 KiB, with their bytes."""

    key: dict[str, Any]
    label: str
    values: dict[str, Any]
    cut: dict[str, int]
    timers: Any = None
    side: str = ""
    """Of a difference: `a` or `b`."""


class StateEntriesInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A page of entries."""

    job: str
    epoch: int
    engine: str
    step: str
    operation: str
    states: list[str]
    items: list[StateEntryInfo]
    next: str | None


class StepDifferenceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How many keys of a step are in one state alone, or other there."""

    step: str
    a: int
    b: int


class StateDifferenceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two readings."""

    steps: list[StepDifferenceInfo]
    items: list[StateEntryInfo]
    more: int


class StateCalls:
    """`client.state`: of a run (`RUN` or `RUN@EPOCH`) or a savepoint, by its number."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def steps(self, where: str | int, *, count: bool = False) -> StateStepsInfo:
        """The steps that keep state."""
        query: Query = {"count": "true" if count else None}
        return self._transport.get(f"/state/{escaped(str(where))}", StateStepsInfo, query)

    def page(
        self,
        where: str | int,
        step: str,
        *,
        state: str | None = None,
        key: Sequence[str] | None = None,
        prefix: str = "",
        limit: int = 100,
        cursor: str | None = None,
    ) -> StateEntriesInfo:
        """What a step has stored: for a key (a value for each key column), or page by page."""
        path = f"/state/{escaped(str(where))}/{escaped(step)}" + ("" if state is None else f"/{escaped(state)}")
        query: Query = {**_key(key), "prefix": prefix, "limit": limit, "cursor": cursor}
        return self._transport.get(path, StateEntriesInfo, query)

    def entries(
        self, where: str | int, step: str, *, state: str | None = None, prefix: str = ""
    ) -> Iterator[StateEntryInfo]:
        """All of its entries, at one epoch."""
        cursor: str | None = None
        while True:
            page = self.page(where, step, state=state, prefix=prefix, limit=1000, cursor=cursor)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def diff(self, a: str | int, b: str | int, *, step: str | None = None, limit: int = 100) -> StateDifferenceInfo:
        """What differs: counts of each step, or the keys of one."""
        query: Query = {"a": str(a), "b": str(b), "step": step, "limit": limit}
        return self._transport.get("/state/diff", StateDifferenceInfo, query)


def _key(values: Sequence[str] | None) -> Query:
    """An address holds any text but one with a character of value zero."""
    if values is None:
        return {}
    is_plain = all("\0" not in value for value in values)
    return {"key": list(values)} if is_plain else {"key_json": msgspec.json.encode(list(values)).decode()}
