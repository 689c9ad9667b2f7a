"""Rows travel in the commit messages and are kept by (name, job, lineage, step, epoch) when an epoch is published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.errors import CheckpointRefused
from millstream.model.connector import Options
from millstream.model.ids import Epoch
from millstream.model.schema import Schema
from millstream.runtime.codecs import Row, batch_to_rows, batch_to_text, table_from_text
from millstream.runtime.connector import SinkContext, SinkTask

Key = tuple[str, str, str, str, Epoch]

_published: dict[Key, pa.Table] = {}


def collected(name: str) -> list[Row]:
    """The rows published under a name, in the order they were published."""
    return [row for table in _tables(name) for row in batch_to_rows(table)]


def collected_table(name: str) -> pa.Table:
    """The rows published under a name as one table; without columns when nothing was."""
    tables = _tables(name)
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def clear(name: str) -> None:
    """Forget what was published under a name."""
    for key in [key for key in _published if key[0] == name]:
        del _published[key]


def _tables(name: str) -> list[pa.Table]:
    return [table for key, table in _published.items() if key[0] == name]


class CollectWriter:
    """Holds the batches of one task."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        self._schema = schema.arrow
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Keep the batch until the task finishes."""
        if batch.num_rows:
            self._batches.append(batch)

    def finish(self) -> Any:
        """The rows themselves, as text."""
        if not self._batches:
            return None
        table = pa.Table.from_batches(self._batches, self._schema)
        return {"rows": table.num_rows, "data": batch_to_text(table)}

    def abort(self) -> None:
        """Forget the batches."""
        self._batches.clear()


class CollectCommitter:
    """Keeps the rows of published epochs in this process."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._name: str = options["name"]
        self._context = context

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """The messages in their order."""
        return {"rows": sum(message["rows"] for message in messages), "messages": list(messages)}

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Keep the epoch's rows; the same rows again change nothing."""
        context = self._context
        key = (self._name, context.job, context.lineage, context.step, epoch)
        tables = [table_from_text(message["data"]) for message in transaction["messages"]]
        table = pa.concat_tables([context.schema.arrow.empty_table(), *tables])
        kept = _published.setdefault(key, table)
        if not _has_equal_rows(kept, table):
            msg = f"epoch {epoch} is already published with other rows"
            raise CheckpointRefused(
                msg,
                code="SINK-001",
                step=context.step,
                found=f"{table.num_rows} rows",
                known=f"{kept.num_rows} published rows",
                hint="the job is not deterministic, or two jobs share a lineage; start a new lineage",
            )

    def discard(self, messages: Sequence[Any]) -> None:
        """Messages hold the only copy, so nothing is left behind."""

    def recover(self, durable: Epoch | None) -> None:
        """Nothing is staged outside messages."""

    def close(self) -> None:
        """Nothing is open."""


def _has_equal_rows(left: pa.Table, right: pa.Table) -> bool:
    # Arrow's `equals` is quick but takes NaN for unequal to itself.
    return left is right or left.equals(right) or repr(batch_to_rows(left)) == repr(batch_to_rows(right))
