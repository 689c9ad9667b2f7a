"""Rows wait in the checkpoint until their epoch is durable, then the driver hands them on, as the mark of the sink allows.

Whoever takes them cannot be asked what it has, or only for the mark: it decides about every epoch, every owner and every lineage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from millstream.connectors.marked.batch import ConsumerContext
from millstream.connectors.marked.keeping import MarkKeeper
from millstream.connectors.marked.marks import MarkOwner, SinkMark
from millstream.connectors.staged_rows import (
    StagedRows,
    check_staged,
    remove_staged,
    staged_batches,
    staged_epoch,
    staged_leftovers,
)
from millstream.contract.sink import SinkContext, SinkTask
from millstream.errors import Fenced
from millstream.model.connector import NewerOutput, Options
from millstream.model.ids import Epoch
from millstream.model.schema import Schema


class StagedRowsWriter:
    """Stages the rows of one task."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        del options
        self._schema, self._task = schema.arrow, task
        self._staged: StagedRows | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows to the file of this attempt."""
        if self._staged is None:
            self._staged = StagedRows(self._task, self._schema)
        self._staged.write(batch)

    def finish(self) -> Any:
        """Make the rows durable and name their file."""
        return None if self._staged is None else self._staged.finish()

    def abort(self) -> None:
        """Remove the file."""
        if self._staged is not None:
            self._staged.abort()


class MarkedCommitter:
    """Hands each epoch on, in batches that are the same when they come again."""

    def __init__(self, context: SinkContext, keeper: MarkKeeper, *, batch_rows: int) -> None:
        """`keeper` takes the batches and keeps the mark."""
        self._context, self._keeper, self._size = context, keeper, batch_rows
        self._owner = MarkOwner(lineage=context.lineage, step=context.step, token=context.token)

    def fence(self) -> None:
        """Leave the token of this run in the mark; a run that finds a higher one ends."""
        self._keeper.change(self._owner.fence)

    def check_newer(self, history: Sequence[tuple[str, int]]) -> None:
        """Raise when another lineage wrote beyond the history."""

        def look(found: SinkMark) -> None:
            self._owner.refuse_newer(found, dict(history))

        self._keeper.change(look)

    def succeed(self, history: Sequence[tuple[str, int]], newer: NewerOutput) -> None:
        """Close all other lineages of this job and step; what they wrote beyond the history is refused or kept."""
        self._keeper.change(lambda found: self._owner.succeed(found, dict(history), newer))

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """The files of the epoch, in the order of tasks."""
        return staged_epoch(messages)

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Hand an epoch on.

        1. The mark says whether it is written already, and with which rows.  2. Check the staged rows.
        3. Hand them on, and keep the new mark.  4. Remove what was staged.
        """

        def decide(found: SinkMark) -> SinkMark | None:
            # Step 1. The mark says whether it is written already
            new = self._owner.publish(found, epoch, transaction)
            if new is not None:
                # Step 2. Check the staged rows
                check_staged(self._context.staging, transaction["files"], epoch=epoch, step=self._context.step)
            return new

        # Step 3. Hand them on, and keep the new mark
        self._keeper.change(decide, epoch, lambda: self._batches(epoch, transaction))
        # Step 4. Remove what was staged
        remove_staged(self._context.staging, [file["file"] for file in transaction["files"]])

    def _batches(self, epoch: Epoch, transaction: Any) -> Iterator[tuple[ConsumerContext, pa.RecordBatch]]:
        who = self._context
        for file in transaction["files"]:
            for number, batch in enumerate(staged_batches(who.staging, file, self._size)):
                told = ConsumerContext(
                    job=who.job, lineage=who.lineage, step=who.step, epoch=epoch, task=file["task"], sequence=number
                )
                yield told, batch

    def discard(self, messages: Sequence[Any]) -> None:
        """Remove what an attempt of this run staged and nobody will publish.

        Once a later owner has fenced this one, it decides: the files may belong to an epoch that it publishes.
        """
        if messages:
            with contextlib.suppress(Fenced):
                self._keeper.change(self._owner.fence)
                remove_staged(self._context.staging, [message["file"] for message in messages])

    def recover(self, durable: Epoch | None) -> None:
        """Remove files of this owner and earlier ones: whatever is durable has been handed over before."""
        # A late owner would take the files of the one that replaced it for leftovers.
        self.fence()
        remove_staged(self._context.staging, staged_leftovers(self._context.staging, token=self._context.token))

    def close(self) -> None:
        """Nothing is open."""
