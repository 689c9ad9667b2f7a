"""Columns of times from columns of numbers since 1970: of the years that Python has, for its functions shall see them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FIRST = pa.scalar(dt.datetime(1, 1, 1), pa.timestamp("us"))  # noqa: DTZ001 - compared with times of any zone
_LAST = pa.scalar(dt.datetime(9999, 12, 31, 23, 59, 59, 999999), pa.timestamp("us"))  # noqa: DTZ001


def instants(column: pa.Array, unit: str, kind: pa.DataType) -> pa.Array:
    """Times of a type of ours from whole numbers of milliseconds, microseconds or nanoseconds: `ms`, `us`, `ns`.

    Raises:
        ValueError: one is outside the years 1 to 9999.
    """
    if unit == "ns":
        micros = column.fill_null(0).to_numpy(zero_copy_only=False) // 1000
        column = pa.array(micros, mask=np.asarray(column.is_null()))
    elif unit == "ms":
        column = pc.multiply_checked(column, 1000)
    return _within_the_calendar(column.cast(pa.timestamp("us"))).cast(kind)


def days(column: pa.Array) -> pa.Array:
    """Dates from days since 1970.

    Raises:
        ValueError: one is outside the years 1 to 9999.
    """
    dates = column.cast(pa.int32()).cast(pa.date32())
    _within_the_calendar(dates.cast(pa.timestamp("us")))
    return dates


def _within_the_calendar(times: pa.Array) -> pa.Array:
    bounds = pc.min_max(times)
    if bounds["min"].is_valid and (pc.less(bounds["min"], _FIRST).as_py() or pc.greater(bounds["max"], _LAST).as_py()):
        msg = "a time outside the years 1 to 9999"
        raise ValueError(msg)
    return times
