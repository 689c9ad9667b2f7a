"""From rows to what is sent: key, value, topic, partition, headers and time of each message, as columns."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.formats.encode import encoder
from millstream.connectors.kafka.outgoing.roles import roles_of
from millstream.connectors.kafka.transactions.marks import marks_begin
from millstream.errors import StepFailed
from millstream.model.change import ChangeKind
from millstream.model.connector import Options
from millstream.model.schema import Schema

HEADERS = pa.map_(pa.string(), pa.binary())
KINDS = {
    "value": pa.binary(),
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "spread": pa.uint32(),
    "timestamp": pa.int64(),
    "headers": HEADERS,
}
"""The columns a batch of messages may have. `spread`, modulo the number of partitions, is the partition."""

_TOPIC = r"\A[A-Za-z0-9._-]{1,249}\z"
_TAKEN = pa.array([".", "..", "__consumer_offsets", "__transaction_state"])
_KINDS = [kind.value for kind in ChangeKind]
_BY_KEY = -1
"""The partition of a message that leaves it to its key, as the client has it."""

Column = Callable[[pa.RecordBatch], pa.Array]


class MessageEncoder:
    """Makes messages of the rows of one sink."""

    def __init__(self, options: Options, schema: Schema, *, step: str) -> None:
        self._step, self._marks = step, marks_begin(options["prefix"])
        self._roles = roles_of(options, schema)
        self._columns = self._made(options, schema)
        self.schema = pa.schema([pa.field(name, KINDS[name]) for name in self._columns])

    def _made(self, options: Options, schema: Schema) -> dict[str, Column]:
        roles = self._roles
        made: dict[str, Column] = {"value": self._value(options, schema)}
        if roles.key:
            made["key"] = self._key(options, schema)
        if roles.topic is not None:
            made["topic"] = self._topic
        if roles.partition is not None:
            made["partition"] = self._partition
        elif roles.spread:
            made["spread"] = _spread(self._encoded(roles.spread_format, roles.spread, schema, options))
        if roles.timestamp is not None:
            made["timestamp"] = self._timestamp
        if roles.headers:
            made["headers"] = self._headers
        return made

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The messages of rows, one for each.

        Raises:
            StepFailed: (KAFKA-021) a row cannot become a message.
        """
        return pa.RecordBatch.from_arrays([make(batch) for make in self._columns.values()], schema=self.schema)

    def _value(self, options: Options, schema: Schema) -> Column:
        encode = self._encoded(options["format"], self._roles.value, schema, options)
        if self._roles.op is None:
            return encode

        def with_tombstones(batch: pa.RecordBatch) -> pa.Array:
            is_deleted = self._deleted(batch.column(self._roles.op))
            return pc.if_else(is_deleted, pa.scalar(None, pa.binary()), encode(batch))

        return with_tombstones

    def _deleted(self, op: pa.Array) -> pa.Array:
        """Which rows delete their key."""
        is_known = pc.is_in(op, pa.array(_KINDS))
        self._refuse(pc.invert(is_known), op, "a change that is none", _KINDS)
        return pc.equal(op, ChangeKind.DELETE.value)

    def _key(self, options: Options, schema: Schema) -> Column:
        encode = self._encoded(self._roles.key_format, self._roles.key, schema, options)
        if options["mode"] != "upsert":
            return encode

        def never_null(batch: pa.RecordBatch) -> pa.Array:
            keys = encode(batch)
            self._refuse(pc.is_null(keys), keys, "a key that is null, which mode 'upsert' cannot replace", "a key")
            return keys

        return never_null

    def _topic(self, batch: pa.RecordBatch) -> pa.Array:
        topics = batch.column(self._roles.topic)
        if self._roles.default_topic is not None:
            topics = topics.fill_null(self._roles.default_topic)
        self._refuse(
            pc.is_null(topics), topics, "a topic that is null", "a topic; one in ms.kafka(...) stands for null"
        )
        # The brokers would be asked for it again and again, as for one that is not there yet.
        is_taken = pc.or_(pc.is_in(topics, _TAKEN), pc.starts_with(topics, self._marks))
        is_wrong = pc.or_(pc.invert(pc.match_substring_regex(topics, _TOPIC)), is_taken)
        known = "at most 249 letters, digits, '.', '_' and '-'; not a topic of marks, nor one of Kafka's own"
        self._refuse(is_wrong, topics, "a topic that cannot be written to", known)
        return topics

    def _partition(self, batch: pa.RecordBatch) -> pa.Array:
        numbers = batch.column(self._roles.partition).cast(pa.int64())
        is_wrong = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, 2**31))
        self._refuse(is_wrong, numbers, "a partition that is none", "a number from 0 on, or null")
        return numbers.fill_null(_BY_KEY).cast(pa.int32())

    def _timestamp(self, batch: pa.RecordBatch) -> pa.Array:
        times = batch.column(self._roles.timestamp)
        ms = pc.floor_temporal(times, unit="millisecond").cast(pa.timestamp("ms", tz=times.type.tz)).cast(pa.int64())
        # The client takes 0 for "now", and brokers refuse what lies before.
        self._refuse(
            pc.less_equal(ms, 0),
            times,
            "a time of a message at or before 1970-01-01T00:00:00Z",
            "a later time, or null for now",
        )
        return ms.fill_null(0)

    def _headers(self, batch: pa.RecordBatch) -> pa.Array:
        headers = self._roles.headers
        if not isinstance(headers, str):
            return _header_columns(batch, headers)
        column = batch.column(headers)
        if pa.types.is_map(column.type):
            return column.cast(HEADERS)
        pairs = [
            None if row is None else [(each["key"], each["value"]) for each in row if each]
            for row in column.to_pylist()
        ]
        is_wrong = [any(name is None for name, _ in row or ()) for row in pairs]
        self._refuse(pa.array(is_wrong, pa.bool_()), column, "a header without a name", "a key that is not null")
        return pa.array(pairs, HEADERS)

    def _encoded(self, format: str, names: tuple[str, ...], schema: Schema, options: Options) -> Column:
        encode = encoder(format, schema.select(names), options, step=self._step)
        chosen = list(names)
        return lambda batch: encode(batch.select(chosen))

    def _refuse(self, is_wrong: pa.Array, values: pa.Array, what: str, known: object) -> None:
        if pc.any(is_wrong).as_py():
            found = repr(values.filter(is_wrong)[0].as_py())
            msg = f"a row has {what}"
            hint = "mend or filter such rows before the sink"
            raise StepFailed(msg, code="KAFKA-021", step=self._step, found=found, known=known, hint=hint)


def _spread(encode: Column) -> Column:
    """A hash that is the same in every process and run: CRC-32, as the client's own `consistent` partitioner has it."""

    def spread(batch: pa.RecordBatch) -> pa.Array:
        return pa.array([zlib.crc32(text or b"") for text in encode(batch).to_pylist()], pa.uint32())

    return spread


def _header_columns(batch: pa.RecordBatch, columns: Mapping[str, str]) -> pa.Array:
    """A header for each column, left out where it is null."""
    values = {name: _bytes(batch.column(column)).to_pylist() for name, column in columns.items()}
    rows = zip(*values.values(), strict=True)
    return pa.array([[pair for pair in zip(values, row, strict=True) if pair[1] is not None] for row in rows], HEADERS)


def _bytes(column: pa.Array) -> pa.Array:
    return column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())
