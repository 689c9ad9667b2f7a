"""Columns of times from columns of numbers since 1970."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def instants(column: pa.Array, unit: str, kind: pa.DataType) -> pa.Array:
    """Times of a type of ours from whole numbers of milliseconds, microseconds or nanoseconds: `ms`, `us`, `ns`."""
    if unit == "ns":
        micros = column.fill_null(0).to_numpy(zero_copy_only=False) // 1000
        return pa.array(micros, mask=np.asarray(column.is_null())).cast(kind)
    return (column if unit == "us" else pc.multiply_checked(column, 1000)).cast(kind)


def days(column: pa.Array) -> pa.Array:
    """Dates from days since 1970."""
    return column.cast(pa.int32()).cast(pa.date32())
