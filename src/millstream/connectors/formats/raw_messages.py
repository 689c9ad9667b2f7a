"""Messages that are the value of one column each, as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from millstream.connectors.formats.message import Decoded, decoded, in_halves, placed
from millstream.connectors.formats.text_columns import Part
from millstream.contract.source import BadRecord
from millstream.model.connector import Options
from millstream.model.schema import Schema


class RawMessages:
    """The whole value into the only column. Where that may be null, a message without a value is a row with null."""

    def __init__(self, schema: Schema, _: Options) -> None:
        (self._field,) = schema
        self._schema = schema.arrow

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Rows and bad messages in the order of the messages."""
        if self._field.nullable:
            return placed(self._parts(values), values, range(len(values)))
        return decoded(values, self._parts)

    def _parts(self, values: Sequence[bytes | None]) -> Iterator[Part]:
        return in_halves(values, self._whole, self._one_by_one)

    def _whole(self, values: Sequence[bytes | None]) -> pa.RecordBatch:
        column = pa.array(values, pa.binary())
        return pa.RecordBatch.from_arrays([column.cast(self._field.type)], schema=self._schema)

    def _one_by_one(self, values: Sequence[bytes | None]) -> Iterator[Part]:
        for value in values:
            try:
                yield self._whole([value])
            except pa.ArrowInvalid as problem:
                yield BadRecord("", f"not UTF-8: {problem}")


def raw_encoder(schema: Schema, _: Options) -> Callable[[pa.RecordBatch], pa.Array]:
    """The only column as it is; null becomes a message without a value."""
    (field,) = schema

    def encode(batch: pa.RecordBatch) -> pa.Array:
        return batch.column(field.name).cast(pa.binary())

    return encode
