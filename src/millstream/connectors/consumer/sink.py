"""The `consumer` sink: rows wait in the checkpoint until their epoch is durable, then the driver hands them to the function."""

from __future__ import annotations

from millstream.connectors.consumer.keepers import FunctionKeeper, function_caller
from millstream.connectors.marked.committer import MarkedCommitter, StagedRowsWriter
from millstream.connectors.marked.keeping import CheckpointKeeper, MarkKeeper
from millstream.contract.sink import SinkContext
from millstream.model.connector import Options


class ConsumerWriter(StagedRowsWriter):
    """Stages the rows of one task."""


class ConsumerCommitter(MarkedCommitter):
    """Hands each epoch to the function, which opens and closes what it needs."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        function = options["function"]
        keeper: MarkKeeper = FunctionKeeper(function, context)
        if not options["transactional"]:
            keeper = CheckpointKeeper(context, function_caller(function, context))
        super().__init__(context, keeper, batch_rows=int(options["batch_rows"]))
