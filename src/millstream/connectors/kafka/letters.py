"""Messages outside their topic: the rows that a sink has written, read back, and a message that is decoded again."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.connectors.formats.decode import BadMessage, decoder
from millstream.connectors.formats.options import DECODE, ENCODE
from millstream.connectors.kafka.client_options import CLIENT_OPTIONS, for_consumer
from millstream.connectors.kafka.reader import KafkaReader
from millstream.connectors.kafka.source import KafkaEnumerator
from millstream.connectors.kafka.source_spec import SOURCE
from millstream.contract.source import BadRecord, Credit, SourceContext
from millstream.errors import InvalidStep
from millstream.model.connector import Options, checked_options
from millstream.model.schema import Schema

_ROWS = 50_000
_SHARED = ("topics", "format", *CLIENT_OPTIONS, *(DECODE.keys() & ENCODE.keys()))
"""Options that mean the same to a source and a sink."""


def read_back(options: Options, schema: Schema, *, job: str, step: str) -> Iterator[pa.RecordBatch]:
    """The rows of the topic up to where it ends now, as a source reads them; messages that are no such rows are passed over."""
    if options["topic_field"] is not None or options["key_fields"]:
        msg = "rows are spread over topics, or over keys and values: they cannot be read back"
        raise InvalidStep(msg, code="DLQ-003", step=step, hint="name one topic, and leave key_fields= out")
    shared = {name: options[name] for name in _SHARED if name in options}
    shared["client"] = for_consumer(options["client"])
    given = checked_options(SOURCE.options, {**shared, "start": "earliest", "until": "latest"}, step=step, name="kafka")
    with tempfile.TemporaryDirectory(prefix="millstream-dlq-") as folder, contextlib.ExitStack() as opened:
        context = SourceContext(step=step, schema=schema, log_dir=Path(folder), parallelism=1, job=job, lineage="dlq")
        enumerator = KafkaEnumerator(given, context)
        opened.callback(enumerator.close)
        reader = KafkaReader(given, schema)
        opened.callback(reader.close)
        yield from _to_the_end(enumerator, reader)


def _to_the_end(enumerator: KafkaEnumerator, reader: KafkaReader) -> Iterator[pa.RecordBatch]:
    position, is_finished = _as_logged(enumerator.initial()), False
    while not is_finished:
        advance = enumerator.advance(position, Credit(_ROWS))
        following = _as_logged(advance.position)
        for split in enumerator.splits(position, following):
            yield from (part for part in reader.read(_as_logged(split.body)) if isinstance(part, pa.RecordBatch))
        position, is_finished = following, advance.finished


def decode_again(options: Options, schema: Schema, record: str | bytes, origin: str) -> pa.RecordBatch | BadRecord:
    """The row of a message; its key, headers and place are not in a letter."""
    if options["metadata"] or options["key_fields"]:
        msg = "columns of the key or of the message itself are not in its letter"
        raise InvalidStep(msg, code="DLQ-004", hint="read the message from the topic again, at its offset")
    values = decoder(options["format"], schema, options)
    (part,) = values.decode([record.encode() if isinstance(record, str) else record])
    return BadRecord(part.raw, part.error, origin) if isinstance(part, BadMessage) else part.rows


def _as_logged(value: Any) -> Any:
    return json.loads(json.dumps(value))
