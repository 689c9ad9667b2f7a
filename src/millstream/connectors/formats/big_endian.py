"""Decimals as Avro and Debezium write them: the digits as one whole number, its bytes from the highest to the lowest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_WIDTH = 16


def decimals(column: pa.Array, scale: int, kind: pa.DataType) -> pa.Array:
    """Decimals of a column of bytes, as the type wanted.

    Raises:
        ValueError: one has more digits than the type.
    """
    column = column.cast(pa.binary())
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    lengths = np.where(column.is_valid(), np.diff(offsets), 0)
    ends = offsets[1:]
    is_negative = np.zeros(len(column), bool)
    is_negative[lengths > 0] = data[(ends - lengths)[lengths > 0]] > 127
    fill = np.where(is_negative, 255, 0).astype(np.uint8)
    _check_width(data, ends, lengths, fill)
    numbers = np.repeat(fill[:, None], _WIDTH, axis=1)
    for place in range(min(_WIDTH, int(lengths.max(initial=0)))):
        has_byte = lengths > place
        numbers[has_byte, place] = data[ends[has_byte] - 1 - place]
    validity = pa.array(np.asarray(column.is_valid())).buffers()[1]
    exact = pa.Array.from_buffers(pa.decimal128(38, scale), len(column), [validity, pa.py_buffer(numbers)])
    exact.validate(full=True)
    return exact if exact.type == kind else exact.cast(kind)


def digits(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of decimals, none of them null, each in as few as it takes; and how many those are."""
    numbers = np.frombuffer(column.buffers()[1], np.uint8, len(column) * _WIDTH, column.offset * _WIDTH)
    highest_first = numbers.reshape(-1, _WIDTH)[:, ::-1]
    fill = np.where(highest_first[:, :1] > 127, 255, 0).astype(np.uint8)
    # A byte says nothing if it and all before it repeat the sign, and the next one shows the sign too.
    is_sign = (highest_first == fill) & ((np.roll(highest_first, -1, axis=1) > 127) == (fill == 255))
    is_sign[:, -1] = False
    is_left_out = np.logical_and.accumulate(is_sign, axis=1)
    return highest_first[~is_left_out], _WIDTH - is_left_out.sum(axis=1)


def wide_digits(column: pa.Array, size: int) -> np.ndarray:
    """The bytes of decimals, none of them null, each in so many.

    Raises:
        ValueError: one needs more.
    """
    data, lengths = digits(column)
    if lengths.max(initial=0) > size:
        msg = f"a decimal that does not fit {size} bytes"
        raise ValueError(msg)
    begins = np.cumsum(lengths) - lengths
    is_negative = data[begins] > 127
    made = np.repeat(np.where(is_negative, 255, 0).astype(np.uint8)[:, None], size, axis=1)
    made[np.arange(size) >= size - lengths[:, None]] = data
    return made


def _check_width(data: np.ndarray, ends: np.ndarray, lengths: np.ndarray, fill: np.ndarray) -> None:
    """Bytes beyond the width say nothing: they only repeat the sign."""
    for row in np.flatnonzero(lengths > _WIDTH):
        beyond = data[ends[row] - lengths[row] : ends[row] - _WIDTH]
        is_same_sign = (data[ends[row] - _WIDTH] > 127) == (fill[row] == 255)
        if not (beyond == fill[row]).all() or not is_same_sign:
            msg = "a decimal of more than 38 digits"
            raise ValueError(msg)
