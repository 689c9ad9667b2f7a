"""Rows as json: ISO times, decimals and binary as text, and text for the numbers that JSON lacks.

`json_values` reads every value back as it was.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.formats.message import cut
from millstream.records.codecs import batch_to_rows

_ENCODER = msgspec.json.Encoder(decimal_format="string", uuid_format="canonical")


def lines(rows: pa.RecordBatch | pa.Table) -> bytes:
    """One object in a line for each row; none holds a line break itself."""
    values = batch_to_rows(rows)
    for field in rows.schema:
        if not _is_writable(rows.column(field.name)):
            for row in values:
                row[field.name] = _written(row[field.name])
    return _ENCODER.encode_lines(values)


def messages(batch: pa.RecordBatch) -> pa.BinaryArray:
    """One object for each row."""
    data = np.frombuffer(lines(batch), np.uint8)
    return cut(data, data == ord("\n"))


def _is_writable(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether no number in the column, at any depth, is one that JSON lacks, and no key is true or false."""
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        return all(map(_is_writable, column.chunks))
    if pa.types.is_floating(kind):
        return bool(pc.all(pc.is_finite(column), skip_nulls=True, min_count=0).as_py())
    if pa.types.is_map(kind):
        return not pa.types.is_boolean(kind.key_type) and _is_writable(column.keys) and _is_writable(column.items)
    if pa.types.is_list(kind):
        return _is_writable(column.flatten())
    return all(map(_is_writable, column.flatten())) if pa.types.is_struct(kind) else True


def _written(value: Any) -> Any:
    """The value with text for NaN and the infinities, and for keys that are true or false."""
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        return [_written(each) for each in value]
    if isinstance(value, dict):
        return {_key(name): _written(each) for name, each in value.items()}
    return value


def _key(name: Any) -> Any:
    # All other keys become text in any case.
    return ("true" if name else "false") if isinstance(name, bool) else _written(name)


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
