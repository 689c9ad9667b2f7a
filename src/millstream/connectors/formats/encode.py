"""From rows to messages: `encoder` opens the format by its name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pyarrow as pa

from millstream.connectors.formats import csv_text, json_text
from millstream.connectors.formats.debezium.encoder import debezium_encoder
from millstream.connectors.formats.options import ENCODE_OPTIONS, settled
from millstream.connectors.formats.raw_messages import raw_encoder
from millstream.errors import MillstreamError
from millstream.model.connector import Options
from millstream.model.schema import Schema

Encode = Callable[[pa.RecordBatch], pa.Array]
"""Makes one binary value of each row; a null is a message without a value."""


def _json(_: Schema, __: Options) -> Encode:
    return json_text.messages


def _csv(_: Schema, options: Options) -> Encode:
    delimiter: str = options["delimiter"]
    return lambda batch: csv_text.messages(batch, delimiter)


def _avro(schema: Schema, options: Options) -> Encode:
    from millstream.connectors.formats.avro.encoder import avro_encoder

    return avro_encoder(schema, options)


_OPEN: dict[str, Callable[[Schema, Options], Encode]] = {
    "json": _json,
    "csv": _csv,
    "raw": raw_encoder,
    "avro": _avro,
    "debezium": debezium_encoder,
}


def encoder(format: str, schema: Schema, options: Options, *, step: str = "") -> Encode:
    """Open a format for writing, with options that `check_format` has seen; errors are those of `step`."""
    with _told_of(step):
        encode = _OPEN[format](schema, settled(ENCODE_OPTIONS[format], options))

    def encode_rows(batch: pa.RecordBatch) -> pa.Array:
        with _told_of(step):
            return encode(batch)

    return encode_rows


@contextlib.contextmanager
def _told_of(step: str) -> Iterator[None]:
    """Formats do not know for which step they write."""
    try:
        yield
    except MillstreamError as problem:
        raise problem.of_step(step) from problem
