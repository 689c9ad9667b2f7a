"""Distinct values per group, vectorised: each group keeps a list of its values, merged by codes instead of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.records.canonical_keys import canonical

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_LARGEST_MAP = 1 << 26
"""Bytes of a map of all pairs of a group and a value that might occur."""
_CLOSE = 8
"""How many times as many integers as there are values may lie between the least and the largest."""
_WIDEST = 1 << 62


def group_numbers(rows: pa.ListArray) -> Numbers:
    """The number of each row's group, from the numbers of each group's rows."""
    lengths = np.asarray(pc.list_value_length(rows))
    numbers = np.empty(int(lengths.sum()), np.int64)
    numbers[np.asarray(rows.flatten())] = np.repeat(np.arange(len(rows)), lengths)
    return numbers


def distinct_values(
    groups: Numbers, count: int, values: pa.Array, masks: Sequence[Mask | None]
) -> Iterator[pa.ListArray]:
    """For each mask, a list per group of the distinct values of its rows; nulls do not count.

    Values are encoded once for all masks.
    """
    codes = _coded(values)
    is_value = None if values.null_count == 0 else np.asarray(values.is_valid())
    pairs = groups * codes.width + codes.places
    for mask in masks:
        chosen = is_value if mask is None else mask if is_value is None else mask & is_value
        yield _lists(pairs if chosen is None else pairs[chosen], count, codes)


class _Codes(NamedTuple):
    """Values as small numbers, equal where the values are; nulls have any."""

    places: Numbers
    width: int
    """Above every code."""
    values: Callable[[Numbers], pa.Array]
    """Codes as values again."""


def _coded(values: pa.Array) -> _Codes:
    """Integers that lie close together, as ids do, are their own codes: nothing is hashed."""
    if pa.types.is_integer(values.type) and values.null_count < len(values):
        low, high = (pc.min_max(values)[end].as_py() for end in ("min", "max"))
        if high - low < _CLOSE * len(values) + 1024 and abs(low) < _WIDEST:
            numbers = np.asarray(pc.fill_null(values, low)).astype(np.int64)
            return _Codes(numbers - low, high - low + 1, lambda codes: pa.array(codes + low).cast(values.type))
    encoded = pc.dictionary_encode(canonical(values))
    known = encoded.dictionary
    places = np.asarray(pc.fill_null(encoded.indices, 0)).astype(np.int64)
    return _Codes(places, max(1, len(known)), lambda codes: known.take(pa.array(codes)))


def merged_values(groups: Numbers, count: int, lists: pa.ListArray) -> pa.ListArray:
    """A list per group of the distinct values of all lists of its rows."""
    if count == len(lists):
        # Every row is its own group. Arrow numbers groups about as they first occur, but not always.
        return lists.take(pa.array(np.argsort(groups)))
    owners = groups[np.asarray(pc.list_parent_indices(lists))]
    return next(distinct_values(owners, count, lists.flatten(), [None]))


def _lists(pairs: Numbers, count: int, codes: _Codes) -> pa.ListArray:
    owners, places = np.divmod(_unique(pairs, count * codes.width), codes.width)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=count), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), codes.values(places))


def _unique(pairs: Numbers, bound: int) -> Numbers:
    """Sorted and without repetition; marking them in a map is fastest where it is not much larger than they are."""
    if bound <= min(_LARGEST_MAP, 64 * len(pairs) + 1024):
        is_there = np.zeros(bound, np.bool_)
        is_there[pairs] = True
        return np.flatnonzero(is_there)
    return np.sort(np.asarray(pc.unique(pa.array(pairs))))
