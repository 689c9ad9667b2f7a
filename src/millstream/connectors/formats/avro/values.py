"""What values in Avro's wire form stand for: columns of Arrow made of columns of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from millstream.connectors.formats import big_endian
from millstream.connectors.formats.instants import instants

Convert = Callable[[pa.Array], pa.Array]

_UNITS = {"micros": "us", "nanos": "ns"}


def plain(wanted: pa.DataType) -> Convert:
    """The same value as another type; whole numbers are rounded to what a fraction can hold, as Avro does."""
    is_rounded = pa.types.is_floating(wanted)

    def convert(column: pa.Array) -> pa.Array:
        return column.cast(wanted, safe=not is_rounded)

    return convert


def decimals(scale: int, wanted: pa.DataType) -> Convert:
    """Decimals, from their bytes."""
    return lambda column: big_endian.decimals(column, scale, wanted)


def symbols(names: Sequence[str]) -> Convert:
    """The texts of an enum, from their numbers."""
    take: Convert = pa.array(names, pa.string()).take
    return take


def times(logical: str, wanted: pa.DataType) -> Convert:
    """Instants since 1970, in milliseconds where nothing else is said."""
    unit = _UNITS.get(logical.rpartition("-")[2], "ms")
    return lambda column: instants(column, unit, wanted)


def lists(wanted: pa.DataType, item: Convert) -> Convert:
    """Lists, of converted items."""

    def convert(column: pa.Array) -> pa.Array:
        offsets = column.offsets.cast(pa.int32())
        return pa.ListArray.from_arrays(offsets, item(column.values), type=wanted, mask=column.is_null())

    return convert


def maps(wanted: pa.DataType, key: Convert, item: Convert) -> Convert:
    """Maps, from lists of pairs."""

    def convert(column: pa.Array) -> pa.Array:
        keys, items = key(column.values.field("key")), item(column.values.field("value"))
        if keys.null_count:
            msg = "a map with a key that is null"
            raise ValueError(msg)
        offsets = column.offsets.cast(pa.int32())
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=column.is_null())

    return convert


def structs(wanted: pa.StructType, chosen: Sequence[tuple[str, Convert] | None]) -> Convert:
    """Structs of converted fields; a field that is not there is null."""

    def convert(column: pa.Array) -> pa.Array:
        arrays = [
            pa.nulls(len(column), field.type) if choice is None else choice[1](column.field(choice[0]))
            for field, choice in zip(wanted, chosen, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(wanted), mask=column.is_null())

    return convert
