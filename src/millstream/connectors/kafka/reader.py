"""The worker's side of a Kafka source: from ranges of offsets to rows, with what was asked of the messages themselves."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.connectors.formats.decode import BadMessage, DecodedRows, decoder
from millstream.connectors.kafka.fetching import Gone, park, take
from millstream.connectors.kafka.library import Message
from millstream.connectors.kafka.losses import DATA_LOSS
from millstream.connectors.kafka.positions import KafkaPartition
from millstream.connectors.kafka.source_spec import key_schema, value_schema
from millstream.contract.source import BadRecord, LostRows
from millstream.errors import StepFailed
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema

_ROWS = 50_000
"""Rows of a batch, at most, so that what a split holds is bounded by its batches and not by its length."""
_value = operator.methodcaller("value")
_key = operator.methodcaller("key")


class KafkaReader:
    """Reads splits `[topic, partition, first offset, offset behind the last]`."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._options, self._schema = options, schema
        self._values = decoder(options["format"], value_schema(options, schema), options)
        self._columns = _message_columns(options, schema)
        keys = key_schema(options, schema)
        # Options of the value's format are not those of the key's.
        self._keys = (
            decoder(options["key_format"], keys, {"ignore_extra": True, "delimiter": ","}) if keys.fields else None
        )
        self._key_names = keys.names
        taken = [schema[column] for column, kind in options["metadata"].items() if kind == "key"]
        self._checked = [field for field in taken if pa.types.is_string(field.type) or not field.nullable]
        """Columns that take keys as they are, and not every key."""

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord | LostRows]:
        """The rows of a range, in the order of offsets; it is read to its end, or fails."""
        topic, partition, first, end = split
        place = KafkaPartition(topic, partition)
        reader = take(self._options, place, first, step=place.name)
        try:
            for part in reader.messages(end):
                if isinstance(part, Gone):
                    yield self._lost(place, part)
                else:
                    yield from self._rows(place, part)
        except BaseException:
            reader.close()
            raise
        park(self._options, reader, step=place.name)

    def _lost(self, place: KafkaPartition, gone: Gone) -> LostRows:
        if self._options["on_data_loss"] == "skip":
            return LostRows(gone.end - gone.first, DATA_LOSS)
        msg = f"records of {place.name} were deleted before they were read"
        found = f"offsets {gone.first} to {gone.end - 1}"
        hint = "keep records longer, or accept it with on_data_loss='skip'"
        raise StepFailed(msg, code="KAFKA-013", step=place.name, found=found, hint=hint)

    def _rows(self, place: KafkaPartition, messages: Sequence[Message]) -> Iterator[pa.RecordBatch | BadRecord]:
        for part in self._runs(place, messages):
            if isinstance(part, BadRecord):
                yield part
            elif part:
                yield from self._of_run(place, part)

    def _runs(self, place: KafkaPartition, messages: Sequence[Message]) -> Iterator[Sequence[Message] | BadRecord]:
        """Messages whose keys fit the columns that take them as they are, and what is wrong with the others."""
        first = 0
        for index, message in enumerate(messages if self._checked else ()):
            for problem in filter(None, (_key_problem(message.key(), field) for field in self._checked)):
                yield messages[first:index]
                yield self._bad(place, message, problem, message.key() or b"")
                first = index + 1
                break
        yield messages[first:]

    def _of_run(self, place: KafkaPartition, messages: Sequence[Message]) -> Iterator[pa.RecordBatch | BadRecord]:
        if self._keys is None:
            yield from self._decoded(place, messages, None)
            return
        for part in self._keys.decode(list(map(_key, messages))):
            if isinstance(part, BadMessage):
                yield self._bad(place, messages[part.index], f"its key: {part.error}", part.raw)
            else:
                yield from self._decoded(place, [messages[index] for index in part.taken], part.rows)

    def _decoded(
        self, place: KafkaPartition, messages: Sequence[Message], keys: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch | BadRecord]:
        for part in self._values.decode(list(map(_value, messages))):
            if isinstance(part, BadMessage):
                yield self._bad(place, messages[part.index], part.error, part.raw)
            else:
                yield self._joined(part, messages, keys)

    def _bad(self, place: KafkaPartition, message: Message, error: str, raw: bytes) -> BadRecord:
        return BadRecord(raw, error, f"{place.name}@{message.offset()}")

    def _joined(self, part: DecodedRows, messages: Sequence[Message], keys: pa.RecordBatch | None) -> pa.RecordBatch:
        """Columns of the value, of the key and of the message, in the order of the schema."""
        if not self._columns and keys is None:
            return part.rows
        is_whole = len(part.taken) == len(messages)
        taken = messages if is_whole else [messages[index] for index in part.taken]
        of_keys = keys if keys is None or is_whole else keys.take(pa.array(np.asarray(part.taken)))
        arrays = []
        for field in self._schema:
            if field.name in self._columns:
                arrays.append(self._columns[field.name](taken))
            elif of_keys is not None and field.name in self._key_names:
                arrays.append(of_keys.column(field.name))
            else:
                arrays.append(part.rows.column(field.name))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def close(self) -> None:
        """Consumers stay for the next task of this process."""


Column = Callable[[Sequence[Message]], pa.Array]


def _message_columns(options: Options, schema: Schema) -> dict[str, Column]:
    return {column: _column(kind, schema[column].type) for column, kind in options["metadata"].items()}


def _column(kind: str, type_: pa.DataType) -> Column:
    match kind:
        case "timestamp":
            return lambda messages: _times([message.timestamp()[1] for message in messages], type_)
        case "headers":
            return lambda messages: pa.array([_headers(message) for message in messages], type_)
        case "key" if pa.types.is_string(type_):
            return lambda messages: pa.array([message.key() for message in messages], pa.binary()).cast(type_)
        case _:
            get = operator.methodcaller(kind)
            return lambda messages: pa.array(list(map(get, messages)), type_)


def _times(times: list[int], type_: pa.DataType) -> pa.Array:
    found = pa.array([None if time < 0 else time for time in times], pa.int64())
    return found if pa.types.is_integer(type_) else found.cast(pa.timestamp("ms", tz="UTC")).cast(type_)


def _headers(message: Message) -> list[dict[str, Any]]:
    headers: Any = message.headers() or ()
    return [{"key": name, "value": value} for name, value in headers]


def _key_problem(key: bytes | None, field: Field) -> str | None:
    """Why a key is no value of a column that takes it as it is."""
    if key is None:
        return None if field.nullable else f"its key: column {field.name!r} is null or missing"
    if pa.types.is_string(field.type):
        try:
            key.decode()
        except UnicodeDecodeError as problem:
            return f"its key: not UTF-8: {problem}"
    return None
