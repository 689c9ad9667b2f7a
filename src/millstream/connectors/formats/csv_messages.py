"""Messages that are one record of csv each: the columns of the schema in order, without a header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.csv

from millstream.connectors.formats.csv_rows import by_record, parsed
from millstream.connectors.formats.message import REFUSED, Decoded, decoded, in_halves
from millstream.connectors.formats.text_columns import Part, single_batch
from millstream.contract.source import BadRecord
from millstream.model.connector import Options
from millstream.model.schema import Schema

_BOM = "\ufeff".encode()


class CsvMessages:
    """Reads blocks of csv records by Arrow, and the neighbours of a bad one by record."""

    def __init__(self, schema: Schema, options: Options) -> None:
        self._schema = schema
        self._names = list(schema.names)
        self._delimiter: str = options["delimiter"]

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Rows and bad messages in the order of the messages."""
        return decoded(values, self._parts)

    def _parts(self, records: Sequence[bytes]) -> Iterator[Part]:
        return in_halves(records, self._whole, self._few)

    def _whole(self, records: Sequence[bytes]) -> pa.RecordBatch:
        chunk = _lines(records)
        if chunk.startswith(_BOM):
            chunk = _BOM + chunk  # Arrow takes the first away, which is one of the message: in others it leaves it
        options = pa.csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(chunk) + 1)
        table = parsed(chunk, self._schema, self._delimiter, options)
        return single_batch(table, self._schema, len(records))

    def _few(self, records: Sequence[bytes]) -> list[Part]:
        try:
            parts = self._by_record(_lines(records))
        except REFUSED:
            parts = []
        is_one_each = sum(map(_length, parts)) == len(records)
        return parts if is_one_each else [self._alone(record) for record in records]

    def _alone(self, record: bytes) -> Part:
        try:
            parts = self._by_record(record.rstrip(b"\r\n") + b"\n")
        except REFUSED as problem:
            return BadRecord("", f"not csv: {problem}")
        found = sum(map(_length, parts))
        return parts[0] if found == 1 else BadRecord("", f"{found} records of csv where one was expected")

    def _by_record(self, chunk: bytes) -> list[Part]:
        return list(by_record(chunk, self._schema, self._names, self._delimiter))


def _lines(records: Sequence[bytes]) -> bytes:
    """All records in lines. As none holds a line break, each is one record if there are as many records as lines.

    Raises:
        ValueError: a record holds a line break, other than at its end.
    """
    chunk = b"\n".join(records) + b"\n"
    if chunk.count(b"\n") == len(records) and b"\r" not in chunk:
        return chunk
    chunk = b"\n".join([record.rstrip(b"\r\n") for record in records]) + b"\n"
    if chunk.count(b"\n") != len(records) or b"\r" in chunk:
        msg = "a line break inside a record"
        raise ValueError(msg)
    return chunk


def _length(part: Part) -> int:
    return 1 if isinstance(part, BadRecord) else int(part.num_rows)
