"""Which side of the source serves which kind of queue."""

from __future__ import annotations

from millstream.connectors.rabbitmq.queue_source import QueueEnumerator, QueueReader
from millstream.connectors.rabbitmq.stream_source import StreamQueueEnumerator, StreamQueueReader
from millstream.contract.source import SourceContext, SplitEnumerator, SplitReader
from millstream.model.connector import Options
from millstream.model.schema import Schema


def open_enumerator(options: Options, context: SourceContext) -> SplitEnumerator:
    """The driver's side."""
    kind = StreamQueueEnumerator if options["kind"] == "stream" else QueueEnumerator
    return kind(options, context)


def open_reader(options: Options, schema: Schema) -> SplitReader:
    """The worker's side."""
    kind = StreamQueueReader if options["kind"] == "stream" else QueueReader
    return kind(options, schema)
