"""Of several messages with the same key in one epoch, the last: whoever reads a compacted topic sees no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa


def latest_per_key(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The messages without those that a later one with the same key and topic replaces, in their order."""
    if not batches:
        return
    codes = _codes(batches, "key")
    if "topic" in batches[0].schema.names:
        codes = codes + _codes(batches, "topic") * (codes.max(initial=0) + 1)
    _, first_from_behind = np.unique(codes[::-1], return_index=True)
    is_latest = np.zeros(len(codes), bool)
    is_latest[len(codes) - 1 - first_from_behind] = True
    start = 0
    for batch in batches:
        end = start + batch.num_rows
        yield batch.filter(pa.array(is_latest[start:end]))
        start = end


def _codes(batches: Sequence[pa.RecordBatch], name: str) -> np.ndarray:
    """A number for each different value of a column."""
    column = pa.chunked_array([batch.column(name) for batch in batches]).combine_chunks()
    return np.asarray(column.dictionary_encode().indices.to_numpy(zero_copy_only=False), np.int64)
