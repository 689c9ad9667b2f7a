"""Rows as csv: what Arrow writes, with base64 text for bytes."""

from __future__ import annotations

import base64

import numpy as np
import pyarrow as pa
import pyarrow.csv

from millstream.connectors.formats.message import cut


def written_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of `written`."""
    return pa.schema([pa.field(f.name, pa.string() if pa.types.is_binary(f.type) else f.type) for f in schema])


def written(table: pa.Table) -> pa.Table:
    """The table with text in the place of bytes."""
    for position, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            values = table.column(position).to_pylist()
            texts = [None if value is None else base64.b64encode(value).decode("ascii") for value in values]
            table = table.set_column(position, field.name, pa.array(texts, pa.string()))
    return table


def messages(batch: pa.RecordBatch, delimiter: str) -> pa.BinaryArray:
    """One record for each row, without the line break behind it."""
    options = pa.csv.WriteOptions(include_header=False, delimiter=delimiter)
    stream = pa.BufferOutputStream()
    pa.csv.write_csv(written(pa.Table.from_batches([batch])), stream, write_options=options)
    data = np.frombuffer(stream.getvalue(), np.uint8)
    # Quotes come in pairs: behind an even number of them a line break ends a record, and behind an odd one it is part of a text.
    is_inside = np.bitwise_xor.accumulate(data == ord('"')) if len(data) else data.astype(bool)
    return cut(data, (data == ord("\n")) & ~is_inside)
