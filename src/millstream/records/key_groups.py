"""Keys → stable hash → key group → subtask. The hash is the same in every process, version and engine.

It runs over a canonical form of each value: integers, dates, timestamps and booleans as 64-bit integers, floats as
doubles (with one zero and one NaN), strings and bytes by content, decimals as exact text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import InvalidSchema
from millstream.records.canonical_keys import canonical

Hashes = npt.NDArray[np.uint64]
_NULL = np.uint64(0x9E3779B97F4A7C15)
_SEED = np.uint64(0x51ED270B7F3A1D4D)
"""Of no meaning, but where stored state lies follows from it and from all that is below."""
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_WORD = 8
_RADIX = 1 << 16
"""Numpy sorts 16-bit numbers by radix."""


def stable_hash(columns: Sequence[pa.Array], *, rows: int | None = None) -> Hashes:
    """One 64-bit hash per row over all key columns; without any, so many `rows` have one and the same."""
    with np.errstate(over="ignore"):
        combined = np.full(len(columns[0]) if columns else rows or 0, _SEED, np.uint64)
        for column in columns:
            combined = _mixed(combined * np.uint64(31) + _column_hash(column))
    return combined


def key_group(hashes: Hashes, groups: int) -> npt.NDArray[np.int64]:
    """The key group of each hash."""
    return (hashes % np.uint64(groups)).astype(np.int64)


def owner(group: npt.NDArray[np.int64], groups: int, parallelism: int) -> npt.NDArray[np.int64]:
    """The subtask that owns each key group: subtask i of P owns `[i·G/P, (i+1)·G/P)`."""
    # The highest subtask whose first key group, rounded down, is not behind this one.
    return ((group + 1) * parallelism - 1) // groups


def stable_order(numbers: npt.NDArray[np.int64], bound: int) -> npt.NDArray[np.int64]:
    """An order that sorts numbers below `bound` and keeps equal ones in place; small numbers sort in linear time."""
    narrow = numbers.astype(np.uint16) if bound <= _RADIX else numbers
    return np.argsort(narrow, kind="stable")


def page_of(hashes: Hashes, pages: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The page inside its key group, from hash bits the key group does not use; `pages` are powers of two."""
    return ((hashes >> np.uint64(32)) & (pages.astype(np.uint64) - np.uint64(1))).astype(np.int64)


def _mixed(values: Hashes) -> Hashes:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    values = values + _GAMMA
    values = (values ^ (values >> np.uint64(30))) * _MIX1
    values = (values ^ (values >> np.uint64(27))) * _MIX2
    return values ^ (values >> np.uint64(31))


def _column_hash(column: pa.Array) -> Hashes:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        hashed = _bytes_hash(column)
    elif pa.types.is_decimal(kind):
        hashed = _bytes_hash(_decimal_text(column))
    elif pa.types.is_floating(kind):
        hashed = _mixed(_double_bits(column))
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        hashed = _mixed(_integers(column).view(np.uint64))
    else:
        msg = "this type cannot be a key"
        raise InvalidSchema(msg, code="SCHEMA-010", found=str(kind), hint="key by a column of a plain type")
    if column.null_count:
        hashed = np.where(np.asarray(column.is_null()), _NULL, hashed)
    return hashed


def _integers(column: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_date32(column.type):
        # Arrow has no way from days to 64 bits but this.
        column = column.cast(pa.int32())
    widened = column.cast(pa.int64())
    return np.ascontiguousarray(widened.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _double_bits(column: pa.Array) -> Hashes:
    values = canonical(column.cast(pa.float64()).fill_null(0.0))
    bits: Hashes = values.to_numpy(zero_copy_only=False).view(np.uint64)
    return bits


def _decimal_text(column: pa.Array) -> pa.Array:
    """Exact text without trailing zeros, so that 1.50 of decimal(5,2) and 1.5 of decimal(5,1) are one key."""
    text = pc.cast(column, pa.string())
    if column.type.scale == 0:
        return text
    # Arrow writes small values with an exponent.
    if pc.any(pc.match_substring(text, "E")).as_py():
        text = pa.array([None if value is None else f"{value:f}" for value in column.to_pylist()], pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")


def _bytes_hash(column: pa.Array) -> Hashes:
    """Hash the bytes of each value word by word, for all rows at once."""
    data, starts, lengths = _layout(column)
    # The length counts too: without it, zeros at the end of a value would not.
    hashed = _mixed(lengths.astype(np.uint64))
    # A word begins at every byte, since values begin anywhere; its bytes have one order on every machine.
    words = np.ndarray(shape=(len(data) - _WORD + 1,), dtype="<u8", buffer=data.data, strides=(1,))
    active = np.flatnonzero(lengths > 0)
    for offset in range(0, int(lengths.max(initial=0)), _WORD):
        active = active[lengths[active] > offset]
        word = words[starts[active] + offset]
        # What a word holds behind the end of its value belongs to the next one.
        missing = np.clip(_WORD - (lengths[active] - offset), 0, _WORD - 1).astype(np.uint64) * np.uint64(8)
        word = word & (np.uint64(0xFFFFFFFFFFFFFFFF) >> missing)
        hashed[active] = _mixed(hashed[active] * np.uint64(31) + word)
    return hashed


def _layout(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    _, offset_buffer, data_buffer = column.buffers()
    if offset_buffer is None or len(column) == 0:
        return np.zeros(_WORD, np.uint8), np.zeros(len(column), np.int64), np.zeros(len(column), np.int64)
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    # The last value may end in the middle of a word: there is room for the rest of it.
    data = np.zeros(last - first + _WORD, np.uint8)
    if data_buffer is not None:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    lengths = np.diff(offsets)
    if column.null_count:
        # Under a null there may lie anything.
        lengths = np.where(np.asarray(column.is_null()), 0, lengths)
    return data, offsets[:-1] - first, lengths
