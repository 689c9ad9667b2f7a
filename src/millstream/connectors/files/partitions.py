"""Cuts batches by the values of partition columns, and names the folders of those values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.connectors.files.columns import folder_name
from millstream.records.codecs import batch_to_rows

Partition = dict[str, str | None]


def grouped(batch: pa.RecordBatch, names: list[str]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """The rows of each combination of values, in their order and without the partition columns."""
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for name in names:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        # Renumbered after each column, so that the product of their sizes cannot overflow.
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    keys = batch_to_rows(batch.select(names).take(pa.array(order[starts])))
    rows = batch.drop_columns(names).take(pa.array(order))
    ends = [*starts[1:].tolist(), batch.num_rows]
    for key, start, end in zip(keys, starts.tolist(), ends, strict=True):
        yield {name: _text(value) for name, value in key.items()}, rows.slice(start, end - start)


def folder_of(partition: Partition) -> str:
    """The folder of a partition, relative to the directory of the sink."""
    return "/".join(folder_name(name, value) for name, value in partition.items())


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dt.datetime, dt.date)):
        return value.isoformat()
    return str(value)
