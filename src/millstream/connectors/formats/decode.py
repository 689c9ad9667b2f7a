"""From messages to rows: `decoder` opens the format by its name."""

from __future__ import annotations

from collections.abc import Callable

from millstream.connectors.formats.csv_messages import CsvMessages
from millstream.connectors.formats.json_messages import JsonMessages
from millstream.connectors.formats.message import BadMessage, DecodedRows, MessageDecoder
from millstream.connectors.formats.raw_messages import RawMessages
from millstream.model.connector import Options
from millstream.model.schema import Schema

__all__ = ["BadMessage", "DecodedRows", "MessageDecoder", "decoder"]

_OPEN: dict[str, Callable[[Schema, Options], MessageDecoder]] = {
    "json": JsonMessages,
    "csv": CsvMessages,
    "raw": RawMessages,
}


def decoder(format: str, schema: Schema, options: Options) -> MessageDecoder:
    """Open a format for reading, with options that `check_format` has seen."""
    return _OPEN[format](schema, options)
