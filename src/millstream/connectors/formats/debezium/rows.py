"""Rows inside envelopes: columns of one table as json, read all at once by Arrow, or record by record."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.connectors.formats import big_endian
from millstream.connectors.formats.debezium.values import UNCHANGED, UNCHANGED_BYTES, is_unchanged, mend
from millstream.connectors.formats.instants import days, instants
from millstream.connectors.formats.json_lines import by_record, first_values
from millstream.connectors.formats.json_messages import JsonMessages
from millstream.connectors.formats.text_columns import Part, check_no_nulls
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema

_MARKS = (UNCHANGED.encode(), UNCHANGED_BYTES.encode())


class TableRows:
    """Reads rows of one table into columns of one schema."""

    def __init__(self, schema: Schema, options: Options) -> None:
        self._schema = schema
        self._options = options
        self._is_base64 = options["decimals"] == "base64"
        self._fails_unchanged = options["unchanged"] == "fail"
        self._units = _units(schema, options["times"])
        mends = {
            field.name: mend(field.type, unit=self._units.get(field.name), is_base64=self._is_base64)
            for field in schema
        }
        self._mends = {name: each for name, each in mends.items() if each is not None}
        self.is_plain = not any(name in self._mends and pa.types.is_nested(schema[name].type) for name in schema.names)
        """Whether Arrow can read them: it cannot mend what is inside a value."""
        self._readers: dict[Schema, JsonMessages] = {}

    def by_record(self, texts: Sequence[bytes]) -> Iterator[Part]:
        """The rows of good json texts, and a bad record for each of the others."""
        ignores_extra: bool = self._options["ignore_extra"]
        return by_record(
            texts, self._schema, lambda text: self.whole([text]), ignore_extra=ignores_extra, mend=self._mended
        )

    def _mended(self, row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        mended = dict(row)
        for name in self._schema.names:
            value = row.get(name)
            if value is None:
                continue
            if self._fails_unchanged and is_unchanged(value):
                msg = f"column {name!r} did not change and was not sent; pass unchanged='placeholder' to take {UNCHANGED!r}"
                raise ValueError(msg)
            if name in self._mends:
                mended[name] = self._mends[name](value)
        return mended

    def whole(self, texts: Sequence[bytes]) -> pa.RecordBatch:
        """The rows of json texts, all at once.

        Raises:
            ValueError: a text is bad, or is good and Arrow cannot read it.
        """
        if not self.is_plain or (self._fails_unchanged and _may_be_unchanged(texts)):
            msg = "to be read by record"
            raise ValueError(msg)
        examples = first_values(texts, self._mends.keys())
        wire = Schema(tuple(self._wire(field, examples) for field in self._schema))
        reader = self._readers.setdefault(wire, JsonMessages(wire, self._options))
        read = reader.whole(texts)
        columns = [self._column(read.column(field.name), field) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow)
        check_no_nulls(batch, self._schema)
        return batch

    def _wire(self, field: Field, examples: Mapping[str, Any]) -> Field:
        """The column as it is written."""
        is_number = isinstance(examples.get(field.name), int)
        if is_number and pa.types.is_temporal(field.type):
            return Field(field.name, pa.int64())
        if pa.types.is_decimal(field.type) and self._is_base64:
            return Field(field.name, pa.string())
        return Field(field.name, field.type)

    def _column(self, column: pa.Array, field: Field) -> pa.Array:
        if column.type == field.type:
            return column
        if pa.types.is_decimal(field.type):
            texts = column.to_pylist()
            data = [None if text is None else base64.b64decode(text, validate=True) for text in texts]
            return big_endian.decimals(pa.array(data, pa.binary()), field.type.scale, field.type)
        if pa.types.is_date(field.type):
            return days(column)
        unit = self._units[field.name]
        if unit is None:
            msg = "times without a unit"
            raise ValueError(msg)
        return instants(column, unit, field.type)


def _may_be_unchanged(texts: Sequence[bytes]) -> bool:
    joined = b"".join(texts)
    return any(mark in joined for mark in _MARKS)


def _units(schema: Schema, times: str | Mapping[str, str] | None) -> dict[str, str | None]:
    """The unit of times that are numbers, by column."""
    if isinstance(times, Mapping):
        return {name: times.get(name) for name in schema.names}
    return dict.fromkeys(schema.names, times)
