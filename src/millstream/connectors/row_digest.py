"""A digest of rows that says whether two readings or attempts gave the same ones, however each cut them into batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

_BYTES = 16


class RowsDigest:
    """Takes in rows in their order. What lies under a null, and where batches end, does not count."""

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {}
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in more rows."""
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for place, content in enumerate(_contents(column)):
                self._part(f"{name}/{place}").update(content)

    def _part(self, name: str) -> Any:
        if name not in self._parts:
            self._parts[name] = hashlib.blake2b(digest_size=_BYTES)
        return self._parts[name]

    def text(self) -> str:
        """The digest of all that came in."""
        whole = hashlib.blake2b(str(self.rows).encode(), digest_size=_BYTES)
        for name, part in sorted(self._parts.items()):
            whole.update(name.encode() + part.digest())
        return whole.hexdigest()


def _contents(column: pa.Array) -> Iterator[Any]:
    """A column in pieces, each of which continues that of the batch before."""
    kind = column.type
    if pa.types.is_nested(kind):
        yield "".join(f"{value!r}\n" for value in column.to_pylist()).encode()
        return
    yield column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        yield np.ascontiguousarray(column.fill_null(0.0).to_numpy(zero_copy_only=False))
        return
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        yield np.ascontiguousarray(_whole_numbers(column).fill_null(0).to_numpy(zero_copy_only=False))
        return
    if pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    filled = column.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(filled.buffers()[1], np.int64)[filled.offset : filled.offset + len(filled) + 1]
    yield np.diff(offsets)
    data = filled.buffers()[2]
    yield memoryview(data)[offsets[0] : offsets[-1]] if data is not None and len(filled) else b""


def _whole_numbers(column: pa.Array) -> pa.Array:
    # Days are counted in 32 bits, which Arrow does not widen in one step.
    days = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    return days.cast(pa.int64())
