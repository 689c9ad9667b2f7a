"""What is told of stored state: steps, entries page by page, differences. All of it is bounded, whatever is stored."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from millstream.contract.stored_questions import DifferenceWanted, EntriesWanted, StatePlace, StepsWanted
from millstream.driver.stored.shown import fitting, label, plain
from millstream.errors import CheckpointRefused, InvalidSchema, MillstreamError
from millstream.inspect.checkpoint import open_view
from millstream.inspect.state.schemas import key_schema
from millstream.inspect.state.steps import differences, step_facts
from millstream.inspect.state.stored import StoredState, open_state, readable
from millstream.inspect.state.tables import TIMERS
from millstream.inspect.state.view import SIDE, state_diff, state_get, state_table
from millstream.state.layout import StateLayout

_GROUPS_AT_ONCE = 8
_PAGE_BYTES = 1 << 22
_LABEL_BYTES = 1 << 10
_TRIES = 4
_PAUSE_SECONDS = 0.1


def steps(wanted: StepsWanted) -> dict[str, Any]:
    """The steps that keep state."""

    def read(state: StoredState) -> dict[str, Any]:
        return {**_about(state), "steps": step_facts(state, counted=wanted.counted or state.is_cheap)}

    return _read(wanted.place, read)


def entries(wanted: EntriesWanted) -> dict[str, Any]:
    """What a step has stored, with where the next page begins."""

    def read(state: StoredState) -> dict[str, Any]:
        page = _ShownEntries(state.layout(wanted.step), wanted)
        if wanted.key is not None:
            place = page.take(state_get(state.step(wanted.step), wanted.key), wanted.passed)
            page.next = None if place is None else [0, place]
        else:
            page.fill(state)
        about = {"step": wanted.step, "operation": page.layout.operation, "key": page.layout.keys, "states": page.names}
        return {**_about(state), **about, "entries": page.entries, "next": page.next}

    return _read(wanted.place, read)


def difference(wanted: DifferenceWanted) -> dict[str, Any]:
    """What differs between two states."""

    def read(a: StoredState) -> dict[str, Any]:
        return _read(wanted.b, lambda b: _difference(a, b, wanted))

    return _read(wanted.a, read)


def _difference(a: StoredState, b: StoredState, wanted: DifferenceWanted) -> dict[str, Any]:
    about = {"a": _about(a), "b": _about(b)}
    if wanted.step is None:
        return {**about, "steps": [dataclasses.asdict(each) for each in differences(a, b)]}
    layouts = a.layout(wanted.step), b.layout(wanted.step)
    if len({_shape(layout) for layout in layouts}) > 1:
        msg = "the step keeps other things in one state than in the other"
        hint = "look at each by itself, or compare the steps"
        raise InvalidSchema(msg, code="SAVE-012", step=wanted.step, found=_shape(layouts[1]), known=_shape(layouts[0]),
                            hint=hint)  # fmt: skip
    table = state_diff(a.step(wanted.step), b.step(wanted.step))
    sides = table.column(SIDE).to_pylist()
    page = _ShownEntries(layouts[0], EntriesWanted(place=wanted.a, step=wanted.step, limit=wanted.limit))
    page.take(table.drop_columns([SIDE]), 0)
    found = [{"in": side, **each} for side, each in zip(sides, page.entries, strict=False)]
    return {**about, "step": wanted.step, "entries": found, "more": max(0, len(sides) - len(found))}


def _shape(layout: StateLayout) -> str:
    return f"{layout.keys}; {', '.join(_states(layout))}"


def _about(state: StoredState) -> dict[str, Any]:
    return {"job": state.job, "epoch": state.epoch, "engine": state.engine}


def _read(place: StatePlace, read: Callable[[StoredState], dict[str, Any]]) -> dict[str, Any]:
    """Read it; where the newest epoch was meant and pruned meanwhile, the newest by then."""
    for tried in range(1, _TRIES + 1):
        state = open_state(place.path, place.epoch, place.manifests)
        _refuse_foreign(state, place)
        try:
            return read(state)
        except (MillstreamError, OSError) as problem:
            if not _is_pruned(state, place):
                # Files go before or after their manifest: who meets the one looks for the other a moment later.
                if tried == _TRIES or not isinstance(problem, (OSError, CheckpointRefused)):
                    raise
            elif place.epoch is not None or tried == _TRIES:
                msg = f"epoch {state.epoch} was pruned while it was read"
                hint = "read a newer one; the setting checkpoint.retention keeps more of them"
                raise CheckpointRefused(msg, code="CKPT-017", hint=hint) from problem
        time.sleep(_PAUSE_SECONDS)
    msg = "the loop above returns or raises"
    raise AssertionError(msg)


def _refuse_foreign(state: StoredState, place: StatePlace) -> None:
    """The directory of a job outlives its runs: what lies there may be another run's that began afresh."""
    lineage = None if state.files is None or state.savepoint is not None else state.files.manifest.lineage
    if place.lineage is not None and lineage != place.lineage:
        msg = "what the run had stored is gone: a later one began afresh in its place"
        raise CheckpointRefused(
            msg, code="CKPT-017", found=f"lineage {lineage}", hint="read the state of the newer run"
        )


def _is_pruned(state: StoredState, place: StatePlace) -> bool:
    if state.savepoint is not None:
        return False
    with open_view(place.path, place.manifests, read_only=True) as view:
        head = view.head()
        return head is None or state.epoch not in view.retained(head)


def _states(layout: StateLayout) -> list[str]:
    keys = {field.name for field in key_schema(layout)}
    if layout.form == "columns":
        names = readable(layout.column_schema.empty_table(), layout).column_names
        return [name for name in names if name not in keys]
    return [f"state.{slot.name}" if slot.name in keys else slot.name for slot in layout.slots]


class _ShownEntries:
    """Entries as they are shown, until there are enough of them or they are too large together."""

    def __init__(self, layout: StateLayout, wanted: EntriesWanted) -> None:
        self.layout, self._wanted = layout, wanted
        self.names = _states(layout)
        self.entries: list[dict[str, Any]] = []
        self.next: list[int] | None = None
        """The key group and the row in its share with which the next page begins."""
        self._keys = [field.name for field in key_schema(layout)]
        self._bytes = 0
        if wanted.state is not None and wanted.state not in self.names:
            msg = "the step keeps no such state"
            hint = "name one of the known"
            raise CheckpointRefused(msg, code="SAVE-013", step=wanted.step, found=repr(wanted.state), known=self.names,
                                    hint=hint)  # fmt: skip

    @property
    def _is_full(self) -> bool:
        return len(self.entries) >= self._wanted.limit or self._bytes >= _PAGE_BYTES

    def fill(self, state: StoredState) -> None:
        """Share by share of the key groups."""
        step = state.step(self._wanted.step)
        for group in range(self._wanted.group, self.layout.key_groups, _GROUPS_AT_ONCE):
            groups = range(group, min(group + _GROUPS_AT_ONCE, self.layout.key_groups))
            passed = self._wanted.passed if group == self._wanted.group else 0
            taken = self.take(state_table(step, groups=groups), passed)
            if taken is not None:
                self.next = [group, taken]
                return

    def take(self, table: pa.Table, passed: int) -> int | None:
        """Rows of a table from one on; the row to go on with when they do not fit any more."""
        shown = readable(table, self.layout)
        for place, row in enumerate(_rows(shown.slice(passed)), passed):
            key = [plain(row[name], name) for name in self._keys]
            text = label(key)
            if not text.startswith(self._wanted.prefix):
                continue
            if self._is_full:
                return place
            self._add(key, text, row)
        return None

    def _add(self, key: list[Any], text: str, row: dict[str, Any]) -> None:
        wanted = self.names if self._wanted.state is None else [self._wanted.state]
        values = {f"key.{name}": value for name, value in zip(self._keys, key, strict=True)}
        values |= {name: plain(row[name], name) for name in wanted}
        fitted = {name: fitting(value) for name, value in values.items()}
        entry: dict[str, Any] = {
            "key": {name: fitted[f"key.{name}"][0] for name in self._keys},
            "label": fitting(text, _LABEL_BYTES)[0],
            "values": {name: fitted[name][0] for name in wanted},
            "cut": {name: size for name, (_, size) in fitted.items() if size is not None},
        }
        timers = next((name for name in (f"state.{TIMERS}", TIMERS) if name in row and name not in self.names), None)
        if timers is not None and self._wanted.state is None:
            entry["timers"], size = fitting(plain(row[timers]))
            entry["cut"] |= {} if size is None else {"timers": size}
        self.entries.append(entry)
        self._bytes += len(json.dumps(entry))


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=256):
        yield from batch.to_pylist()
