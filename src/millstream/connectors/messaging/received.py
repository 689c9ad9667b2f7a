"""From messages as a broker delivers them to rows, with what was asked of the messages themselves as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from millstream.connectors.formats.decode import BadMessage, decoder
from millstream.connectors.formats.options import check_format
from millstream.contract.source import BadRecord
from millstream.errors import InvalidStep
from millstream.model.connector import Options
from millstream.model.schema import Schema
from millstream.model.types import type_name

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TIMES = (pa.timestamp("us", tz="UTC"), pa.int64())
TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "subject": (pa.string(),),
    "routing_key": (pa.string(),),
    "exchange": (pa.string(),),
    "message_id": (pa.string(),),
    "sequence": (pa.int64(),),
    "offset": (pa.int64(),),
    "redelivered": (pa.bool_(),),
    "timestamp": _TIMES,
    "headers": (HEADERS,),
}
"""What a column may hold beside the value, and the types it may have then."""


class BrokerMessage(NamedTuple):
    """A message as its broker delivered it."""

    body: bytes
    number: int
    """Its sequence or offset; 0 where messages have none."""
    facts: Mapping[str, Any]
    """What else is known of it, by the names of `TYPES`; times in microseconds since 1970, headers as pairs."""


def checked_metadata(kinds: Sequence[str]) -> Callable[[Mapping[str, Any]], dict[str, str]]:
    """The check of an option `metadata`: column → one of these."""

    def check(value: Mapping[str, Any]) -> dict[str, str]:
        for column, kind in value.items():
            if kind not in kinds:
                msg = f"column → one of {', '.join(kinds)}, not {column!r}: {kind!r}"
                raise ValueError(msg)
        return dict(value)

    return check


def value_schema(metadata: Mapping[str, str], schema: Schema) -> Schema:
    """The columns that are in the body of messages."""
    return Schema(tuple(field for field in schema if field.name not in metadata))


def check_columns(options: Options, schema: Schema, step: str, *, code: str) -> None:
    """Refuse columns that are not there, cannot hold what they shall, or do not fit the format."""
    for column, kind in options["metadata"].items():
        if column not in schema:
            msg = f"metadata= names {column!r}, which is not a column of the schema"
            hint = "add it to schema=, or correct metadata="
            raise InvalidStep(msg, code=code, step=step, known=schema.names, hint=hint)
        if schema[column].type not in TYPES[kind]:
            msg = f"column {column!r} is to hold the {kind} of messages and has another type"
            known = " or ".join(type_name(each) for each in TYPES[kind])
            found = type_name(schema[column].type)
            raise InvalidStep(msg, code=code, step=step, found=found, known=known, hint="correct schema=")
    inside = value_schema(options["metadata"], schema)
    if not inside.fields:
        msg = "no column is left for the body of messages"
        raise InvalidStep(msg, code=code, step=step, hint="add one, such as 'value binary'")
    check_format(options, inside, step)


class MessageRows:
    """Decodes messages of one source."""

    def __init__(self, options: Options, schema: Schema, *, format: str, metadata: Mapping[str, str]) -> None:
        """`options` are those of the source, among which are those of its format."""
        self._schema, self._metadata = schema, metadata
        self._values = decoder(format, value_schema(metadata, schema), options)

    def decode(self, messages: Sequence[BrokerMessage], origin: str) -> Iterator[pa.RecordBatch | BadRecord]:
        """Rows and bad records in the order of the messages; `origin` names where they stand outside."""
        for part in self._values.decode([message.body for message in messages]):
            if isinstance(part, BadMessage):
                yield BadRecord(part.raw, part.error, f"{origin}@{messages[part.index].number}")
            else:
                taken = [messages[index] for index in part.taken] if self._metadata else ()
                yield self._joined(part.rows, taken)

    def _joined(self, rows: pa.RecordBatch, messages: Sequence[BrokerMessage]) -> pa.RecordBatch:
        if not self._metadata:
            return rows
        arrays = [
            _column(self._metadata[field.name], messages, field.type)
            if field.name in self._metadata
            else rows.column(field.name)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)


def _column(kind: str, messages: Sequence[BrokerMessage], type_: pa.DataType) -> pa.Array:
    if kind in ("sequence", "offset"):
        return pa.array([message.number for message in messages], type_)
    values = [message.facts.get(kind) for message in messages]
    if kind == "timestamp":
        times = pa.array(values, pa.int64())
        return times.cast(type_) if not pa.types.is_integer(type_) else pa.array([_whole_ms(each) for each in values])
    if kind == "headers":
        return pa.array([[{"key": key, "value": value} for key, value in each or ()] for each in values], type_)
    return pa.array(values, type_)


def _whole_ms(microseconds: int | None) -> int | None:
    return None if microseconds is None else microseconds // 1000
