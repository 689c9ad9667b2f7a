"""Stored entries as Arrow tables: key columns, slots, timers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from millstream.inspect.state.schemas import arrow_type, key_schema
from millstream.records.value_types import row_type
from millstream.state.layout import SlotLayout, StateLayout
from millstream.state.pages import NEVER

TIMERS = "timers"
_TIMERS = pa.struct([("event", pa.list_(pa.int64())), ("processing", pa.list_(pa.int64())), ("expiry", pa.int64())])
_ENTRY = msgspec.msgpack.Decoder(list[Any])


class EntryTables:
    """Turns entries of one layout into tables."""

    def __init__(self, layout: StateLayout) -> None:
        self._keys, self._slots = list(key_schema(layout)), layout.slots
        self._key_decoder = msgspec.msgpack.Decoder(row_type(key_schema(layout)))
        taken = {field.name for field in self._keys}
        slots = [f"state.{slot.name}" if slot.name in taken else slot.name for slot in self._slots]
        self._names = [*(field.name for field in self._keys), *slots]
        self._names.append(f"state.{TIMERS}" if TIMERS in self._names else TIMERS)

    def of(self, entries: Mapping[bytes, msgspec.Raw]) -> pa.Table:
        """One row per entry."""
        keys = [self._key_decoder.decode(key) for key in entries]
        decoded = [_ENTRY.decode(raw) for raw in entries.values()]
        columns = [pa.array([key[place] for key in keys], field.type) for place, field in enumerate(self._keys)]
        columns += [_slot_column(slot, [entry[place] for entry in decoded]) for place, slot in enumerate(self._slots)]
        columns.append(pa.array([_timers(*entry[-3:]) for entry in decoded], _TIMERS))
        return pa.table(columns, names=self._names)


def joined(tables: list[pa.Table]) -> pa.Table:
    """Tables of one layout below each other; a column that is text in one of them is JSON text in all."""
    columns: dict[str, list[pa.ChunkedArray]] = {}
    for table in tables:
        for name in table.column_names:
            columns.setdefault(name, []).append(table.column(name))
    return pa.table({name: _chunked(parts) for name, parts in columns.items()})


def _chunked(parts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    kinds = {part.type for part in parts}
    if len(kinds) > 1:
        parts = [part if part.type == pa.string() else pa.chunked_array([_texts(part.to_pylist())]) for part in parts]
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)


def _slot_column(slot: SlotLayout, stored: list[Any]) -> pa.Array:
    contents = [None if each is None else each[1] for each in stored] if slot.expires else stored
    kind = arrow_type(slot.type)
    if kind is None:
        return _texts(contents)
    try:
        return pa.array([_as_items(each, kind) for each in contents], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
        # Wider than Arrow's type, such as an integer above 2^63.
        return _texts(contents)


def _as_items(value: Any, kind: pa.DataType) -> Any:
    """Maps as pairs, at any depth, as Arrow takes them."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _as_items(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [_as_items(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _as_items(value.get(field.name), field.type) for field in kind}
    return value


def _texts(values: list[Any]) -> pa.Array:
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except TypeError:
        # JSON has no maps with keys that are tuples.
        return repr(value)


def _timers(event: list[int], processing: list[int], expiry: int) -> dict[str, Any]:
    return {"event": event, "processing": processing, "expiry": None if expiry == NEVER else expiry}
