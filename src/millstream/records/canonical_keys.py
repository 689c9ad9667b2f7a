"""The one form of a floating-point key: `0.0` for both zeros, one NaN.

Keys are brought into it before the shuffle, so that hashing, grouping and state need no rule of their own: keys are equal where
their bits are. Keys of other types are left alone, which is decided from their types once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.schema import Schema


def canonical(values: pa.Array) -> pa.Array:
    """Values of which equal ones have equal bits: one zero and one NaN, as Spark has it."""
    if not pa.types.is_floating(values.type):
        return values
    values = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)


def canonical_value(value: Any) -> Any:
    """As `canonical`, for one value."""
    if not isinstance(value, float):
        return value
    return math.nan if math.isnan(value) else value + 0.0


def float_columns(names: Sequence[str], schema: Schema | pa.Schema) -> tuple[str, ...]:
    """Which of these columns have more than one form of a value."""
    return tuple(name for name in names if pa.types.is_floating(_type(schema, name)))


def with_canonical(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The rows with these columns in their one form."""
    for name in names:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), canonical(rows.column(place)))
    return rows


def are_canonical(rows: pa.RecordBatch, names: Sequence[str]) -> bool:
    """Whether these columns have their one form already, bit for bit."""
    return not any(_differ(rows.column(name)) for name in names)


def _differ(values: pa.Array) -> bool:
    kind = pa.int32() if pa.types.is_float32(values.type) else pa.int64()
    return bool(pc.any(pc.not_equal(values.view(kind), canonical(values).view(kind))).as_py())


def _type(schema: Schema | pa.Schema, name: str) -> pa.DataType:
    return schema.field(name).type if isinstance(schema, pa.Schema) else schema[name].type
