"""Equality of keys, as joins understand it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.state.segment import Flags


def equal_keys(
    left: pa.RecordBatch, right: pa.RecordBatch, left_keys: tuple[str, ...], right_keys: tuple[str, ...]
) -> Flags:
    """Where the keys of two batches are equal, row by row; equal codes hardly ever belong to different keys, but may."""
    holds: Flags = np.ones(left.num_rows, np.bool_)
    for one, other in zip(left_keys, right_keys, strict=True):
        holds &= same(left.column(one), right.column(other))
    return holds


def same(one: pa.Array, other: pa.Array) -> Flags:
    """Where two columns are equal; nulls never are, and NaN is one value, as in SQL."""
    equal = flags(pc.fill_null(pc.equal(one, other), pa.scalar(value=False)))
    if pa.types.is_floating(one.type):
        equal |= flags(pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), pa.scalar(value=False)))
    return equal


def same_or_null(one: pa.Array, other: pa.Array) -> Flags:
    """As `same`, but null is a value like any other."""
    return same(one, other) | flags(pc.and_(pc.is_null(one), pc.is_null(other)))


def flags(array: pa.Array) -> Flags:
    """A boolean array without nulls, to be changed at will."""
    values: Flags = array.to_numpy(zero_copy_only=False)
    return values.copy()
