"""Values of whole columns as Avro writes them: the bytes of all values in a row, and how many belong to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

_LONGEST_VARINT = 10


class Pieces(NamedTuple):
    """The bytes of many values, one behind the other."""

    data: np.ndarray
    lengths: np.ndarray


def varint(number: int) -> bytes:
    """A number as Avro writes it: small ones in few bytes, whatever their sign."""
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 127:
        written.append(rest & 127 | 128)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def varints(numbers: np.ndarray) -> Pieces:
    """Whole numbers, small ones in few bytes."""
    rest = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    lengths = np.ones(len(rest), np.int64)
    for place in range(1, _LONGEST_VARINT):
        has_more = rest >= np.uint64(1 << 7 * place)
        if not has_more.any():
            break
        lengths += has_more
    places = np.arange(lengths.max(initial=0), dtype=np.uint64)
    written = (rest[:, None] >> (places * np.uint64(7))).astype(np.uint8) & 127
    written |= np.where(places < lengths[:, None] - 1, 128, 0).astype(np.uint8)
    return Pieces(written[places < lengths[:, None]], lengths)


def fixed(values: np.ndarray) -> Pieces:
    """Values that take the bytes they have in memory, each the same number."""
    data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
    return Pieces(data, np.full(len(values), len(data) // max(1, len(values)), np.int64))


def constant(value: bytes, count: int) -> Pieces:
    """The same bytes again and again."""
    return Pieces(np.tile(np.frombuffer(value, np.uint8), count), np.full(count, len(value), np.int64))


def contents(column: pa.Array) -> Pieces:
    """The bytes of a column of text or bytes, in which no value is null."""
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    return Pieces(data[offsets[0] : offsets[-1]], np.diff(offsets))


def sized(pieces: Pieces) -> Pieces:
    """Each value behind its length."""
    return side_by_side([varints(pieces.lengths), pieces])


def side_by_side(parts: Sequence[Pieces]) -> Pieces:
    """The first values of all parts, then the second, and so on."""
    if len(parts) == 1:
        return parts[0]
    lengths: np.ndarray = sum(part.lengths for part in parts) + np.zeros(len(parts[0].lengths), np.int64)
    made = np.empty(lengths.sum(), np.uint8)
    begins = np.cumsum(lengths) - lengths
    for part in parts:
        shift = begins - (np.cumsum(part.lengths) - part.lengths)
        made[np.repeat(shift, part.lengths) + np.arange(len(part.data))] = part.data
        begins += part.lengths
    return Pieces(made, lengths)


def grouped(pieces: Pieces, counts: np.ndarray) -> Pieces:
    """Values that stand together: so many make one."""
    ends = np.concatenate([[0], np.cumsum(pieces.lengths)])[np.concatenate([[0], np.cumsum(counts)])]
    return Pieces(pieces.data, np.diff(ends))


def spread(pieces: Pieces, is_there: np.ndarray) -> Pieces:
    """The same values with nothing between them where none is there."""
    lengths = np.zeros(len(is_there), np.int64)
    lengths[is_there] = pieces.lengths
    return Pieces(pieces.data, lengths)


def messages(pieces: Pieces) -> pa.Array:
    """Each value as one of a binary column."""
    ends = np.concatenate([[0], np.cumsum(pieces.lengths)])
    is_large = ends[-1] > np.iinfo(np.int32).max
    kind, offsets = (pa.large_binary(), ends) if is_large else (pa.binary(), ends.astype(np.int32))
    return pa.Array.from_buffers(kind, len(pieces.lengths), [None, pa.py_buffer(offsets), pa.py_buffer(pieces.data)])
