"""From what an Avro writer wrote to the columns asked for: by name, with the promotions that Avro knows.

Avro writes an int like a long, the symbol of an enum like an int, and a map like an array of pairs. So every schema has an equal
one of few types, its wire form, that is read into Arrow fast; what the values mean is worked out there, column by column.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from millstream.connectors.formats.avro import values
from millstream.connectors.formats.avro.schema import AvroType
from millstream.connectors.formats.instants import days
from millstream.model.schema import Schema
from millstream.model.types import type_name


@dataclasses.dataclass(frozen=True, slots=True)
class ValueReading:
    """How one type is read: its wire form, the Arrow type of that, and what makes the values of the type asked for."""

    wire: Any
    arrow: pa.DataType
    convert: Callable[[pa.Array], pa.Array]


@dataclasses.dataclass(frozen=True, slots=True)
class RowReading:
    """How messages of one writer become rows."""

    wire: dict[str, Any]
    """The wire form of a message by field, under names of our own."""
    columns: dict[str, tuple[str, ValueReading] | None]
    """For each column the field it is read from; `None` where the writer has none."""
    is_simple: bool
    """Whether every union is of null and one other type."""


def row_reading(writer: AvroType, schema: Schema) -> RowReading:
    """How to read a schema's columns from messages of a writer; a message that is no record is the value of the only column.

    Raises:
        ValueError: a column is missing that may not be null, or has a type that cannot become the one asked for.
    """
    if writer.kind != "record":
        if len(schema) != 1:
            msg = f"messages are {writer.name}, not records"
            raise ValueError(msg)
        writer = AvroType("record", fields=((schema.names[0], writer),))
    resolver = _Resolver()
    struct = pa.struct([pa.field(field.name, field.type) for field in schema])
    wire, columns = resolver.fields(writer, struct, "")
    for field in schema:
        if columns[field.name] is None and not field.nullable:
            msg = f"column {field.name!r} is not in the schema of the messages and may not be null"
            raise ValueError(msg)
    return RowReading(wire, columns, resolver.is_simple)


class _Resolver:
    """Resolves one writer's schema; records and fixed types get names that occur once."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.is_simple = True

    def fields(
        self, writer: AvroType, wanted: pa.StructType, path: str
    ) -> tuple[dict[str, Any], dict[str, tuple[str, ValueReading] | None]]:
        """The wire form of each field of a record, and the field of each column wanted."""
        wire: dict[str, Any] = {}
        columns: dict[str, tuple[str, ValueReading] | None] = {field.name: None for field in wanted}
        for number, (name, kind) in enumerate(writer.fields):
            if kind.kind == "null":
                continue  # it takes no bytes
            if name in columns:
                reading = self.reading(kind, wanted.field(name).type, f"{path}{name}")
                columns[name] = (f"f{number}", reading)
                wire[f"f{number}"] = reading.wire
            else:
                wire[f"f{number}"] = self._skipped(kind)
        return wire, columns

    def reading(self, writer: AvroType, wanted: pa.DataType, path: str) -> ValueReading:
        """How a type becomes the one wanted."""
        found = self._reading(writer, wanted, path)
        if found is None:
            msg = f"column {path!r} is {writer.name} in the messages, which does not become {type_name(wanted)}"
            raise ValueError(msg)
        return found

    def _reading(self, writer: AvroType, wanted: pa.DataType, path: str) -> ValueReading | None:
        match writer.kind:
            case "union":
                return self._optional(writer, wanted, path)
            case "record" if pa.types.is_struct(wanted):
                return self._struct(writer, wanted, path)
            case "array" if pa.types.is_list(wanted):
                item = self.reading(writer.parts[0], wanted.value_type, f"{path}[]")
                wire = {"type": "array", "items": item.wire}
                return ValueReading(wire, pa.list_(item.arrow), values.lists(wanted, item.convert))
            case "map" if pa.types.is_map(wanted) and pa.types.is_string(wanted.key_type):
                return self._pairs(AvroType("string"), writer.parts[0], wanted, path)
            case "array" if pa.types.is_map(wanted) and (pair := _pair(writer.parts[0])):
                return self._pairs(*pair, wanted, path)
            case "fixed" | "bytes" | "string":
                return self._bytes(writer, wanted)
            case _:
                return _number(writer, wanted)

    def _optional(self, writer: AvroType, wanted: pa.DataType, path: str) -> ValueReading | None:
        inner = writer.without_null or (writer.parts[0] if len(writer.parts) == 1 else None)
        if inner is None or inner.kind in {"union", "null"}:
            return None
        self.is_simple = self.is_simple and len(writer.parts) == 2
        found = self._reading(inner, wanted, path)
        return found and dataclasses.replace(
            found, wire=["null" if part.kind == "null" else found.wire for part in writer.parts]
        )

    def _struct(self, writer: AvroType, wanted: pa.StructType, path: str) -> ValueReading:
        wire, columns = self.fields(writer, wanted, f"{path}.")
        taken = [column for column in columns.values() if column is not None]
        arrow = pa.struct([pa.field(name, reading.arrow) for name, reading in taken])
        chosen = [None if column is None else (column[0], column[1].convert) for column in columns.values()]
        return ValueReading(self._record(wire), arrow, values.structs(wanted, chosen))

    def _pairs(self, key: AvroType, item: AvroType, wanted: pa.MapType, path: str) -> ValueReading:
        keys = self.reading(key, wanted.key_type, f"{path}[key]")
        items = self.reading(item, wanted.item_type, f"{path}[]")
        wire = {"type": "array", "items": self._record({"key": keys.wire, "value": items.wire})}
        arrow = pa.list_(pa.struct([pa.field("key", keys.arrow), pa.field("value", items.arrow)]))
        return ValueReading(wire, arrow, values.maps(wanted, keys.convert, items.convert))

    def _bytes(self, writer: AvroType, wanted: pa.DataType) -> ValueReading | None:
        wire, arrow = (writer.kind, pa.string() if writer.kind == "string" else pa.binary())
        if writer.kind == "fixed":
            wire = self._fixed(writer.size)
        if pa.types.is_decimal(wanted):
            is_decimal = writer.logical == "decimal"
            return ValueReading(wire, arrow, values.decimals(writer.scale, wanted)) if is_decimal else None
        is_text = pa.types.is_string(wanted) and writer.kind != "fixed" and writer.logical != "decimal"
        return ValueReading(wire, arrow, values.plain(wanted)) if is_text or pa.types.is_binary(wanted) else None

    def _skipped(self, writer: AvroType) -> Any:
        """The wire form of what no column asks for."""
        match writer.kind:
            case "union":
                self.is_simple = self.is_simple and writer.without_null is not None
                return ["null" if part.kind == "null" else self._skipped(part) for part in writer.parts]
            case "record":
                kept = [kind for _, kind in writer.fields if kind.kind != "null"]
                return self._record({f"f{number}": self._skipped(kind) for number, kind in enumerate(kept)})
            case "array":
                return {"type": "array", "items": self._skipped(writer.parts[0])}
            case "map":
                pair = {"key": "string", "value": self._skipped(writer.parts[0])}
                return {"type": "array", "items": self._record(pair)}
            case "fixed":
                return self._fixed(writer.size)
            case "enum" | "int":
                return "long"
        return writer.kind

    def _record(self, fields: dict[str, Any]) -> Any:
        written = [{"name": name, "type": kind} for name, kind in fields.items()]
        return {"type": "record", "name": f"r{next(self._numbers)}", "fields": written}

    def _fixed(self, size: int) -> Any:
        return {"type": "fixed", "name": f"x{next(self._numbers)}", "size": size}


def _pair(item: AvroType) -> tuple[AvroType, AvroType] | None:
    """Key and value, if that is what a record is: so maps are written whose keys are no text."""
    fields = dict(item.fields)
    return (fields["key"], fields["value"]) if [*fields] == ["key", "value"] else None


def _number(writer: AvroType, wanted: pa.DataType) -> ValueReading | None:
    """Numbers, and what is written as one; `None` for what is neither, or may not become the type wanted."""
    match writer.kind:
        case "enum" if pa.types.is_string(wanted):
            return ValueReading("long", pa.int64(), values.symbols(writer.symbols))
        case "int" if writer.logical == "date" and pa.types.is_date(wanted):
            return ValueReading("long", pa.int64(), days)
        case "long" if pa.types.is_timestamp(wanted) and not writer.logical.startswith("time-"):
            return ValueReading("long", pa.int64(), values.times(writer.logical, wanted))
        case "int" | "long" if pa.types.is_floating(wanted) and writer.is_time:
            return None
        case "int" if pa.types.is_integer(wanted) or pa.types.is_floating(wanted):
            return ValueReading("long", pa.int64(), values.plain(wanted))
        case "long" if pa.types.is_int64(wanted) or pa.types.is_floating(wanted):
            return ValueReading("long", pa.int64(), values.plain(wanted))
        case "float" if pa.types.is_floating(wanted):
            return ValueReading("float", pa.float32(), values.plain(wanted))
        case "double" if pa.types.is_float64(wanted):
            return ValueReading("double", pa.float64(), values.plain(wanted))
        case "boolean" if pa.types.is_boolean(wanted):
            return ValueReading("boolean", pa.bool_(), values.plain(wanted))
    return None
