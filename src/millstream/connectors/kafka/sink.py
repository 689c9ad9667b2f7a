"""The half of the sink that runs in the workers: messages are made there, and wait in the checkpoint."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millstream.connectors.kafka.outgoing.messages import MessageEncoder
from millstream.connectors.kafka.outgoing.staging import StagedMessages
from millstream.contract.sink import SinkTask
from millstream.model.connector import Options
from millstream.model.schema import Schema


class KafkaWriter:
    """Stages the messages of one task."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        self._encoder = MessageEncoder(options, schema, step=task.step)
        self._task = task
        self._staged: StagedMessages | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Stage the messages of a batch."""
        if not batch.num_rows:
            return
        messages = self._encoder.encode(batch)
        if self._staged is None:
            self._staged = StagedMessages(self._task, self._encoder.schema)
        self._staged.write(messages)

    def finish(self) -> Any:
        """Make the messages durable and name their file."""
        return None if self._staged is None else self._staged.finish()

    def abort(self) -> None:
        """Remove the file."""
        if self._staged is not None:
            self._staged.abort()
