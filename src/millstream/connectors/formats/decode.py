"""From messages to rows: `decoder` opens the format by its name."""

from __future__ import annotations

from collections.abc import Callable

from millstream.connectors.extras import missing_extra
from millstream.connectors.formats.csv_messages import CsvMessages
from millstream.connectors.formats.debezium.messages import DebeziumMessages
from millstream.connectors.formats.json_messages import JsonMessages
from millstream.connectors.formats.message import BadMessage, DecodedRows, MessageDecoder
from millstream.connectors.formats.options import DECODE_OPTIONS, settled
from millstream.connectors.formats.raw_messages import RawMessages
from millstream.model.connector import Options
from millstream.model.schema import Schema

__all__ = ["BadMessage", "DecodedRows", "MessageDecoder", "decoder"]


def _avro(schema: Schema, options: Options) -> MessageDecoder:
    try:
        from millstream.connectors.formats.avro.messages import avro_messages
    except ModuleNotFoundError as problem:
        raise missing_extra(problem, extra="avro") from None
    return avro_messages(schema, options)


_OPEN: dict[str, Callable[[Schema, Options], MessageDecoder]] = {
    "json": JsonMessages,
    "csv": CsvMessages,
    "raw": RawMessages,
    "avro": _avro,
    "debezium": DebeziumMessages,
}


def decoder(format: str, schema: Schema, options: Options) -> MessageDecoder:
    """Open a format for reading, with options that `check_format` has seen."""
    return _OPEN[format](schema, settled(DECODE_OPTIONS[format], options))
