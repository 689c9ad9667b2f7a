"""Rows travel in the commit messages and are kept by (name, job, lineage, step, epoch) when an epoch is published.

Rows and fences live as long as the process: they hold off other owners in it, and know nothing of other processes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from millstream.contract.sink import SinkContext, SinkTask
from millstream.errors import CheckpointRefused, Fenced
from millstream.model.connector import NewerOutput, Options
from millstream.model.ids import Epoch
from millstream.model.schema import Schema
from millstream.records.codecs import Row, batch_to_rows, batch_to_text, table_from_text

CLOSED = 2**62
"""The token of a lineage that another one has succeeded: no owner has a higher one."""


class RowOwner(NamedTuple):
    """Whose rows they are."""

    name: str
    job: str
    lineage: str
    step: str


_published: dict[tuple[RowOwner, Epoch], pa.Table] = {}
_fences: dict[RowOwner, int] = {}
_lock = threading.Lock()


def collected(name: str) -> list[Row]:
    """The rows published under a name, in the order they were published."""
    return [row for table in _tables(name) for row in batch_to_rows(table)]


def collected_table(name: str) -> pa.Table:
    """The rows published under a name as one table; without columns when nothing was."""
    tables = _tables(name)
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def clear(name: str) -> None:
    """Forget what was published under a name, and by whom."""
    with _lock:
        for key in [key for key in _published if key[0].name == name]:
            del _published[key]
        for owner in [owner for owner in _fences if owner.name == name]:
            del _fences[owner]


def _tables(name: str) -> list[pa.Table]:
    with _lock:
        return [table for (owner, _), table in _published.items() if owner.name == name]


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
        self._owner = RowOwner(options["name"], context.job, context.lineage, context.step)
        self._context = context

    def fence(self) -> None:
        """Raise the fence to the token."""
        with _lock:
            self._check_token()

    def _check_token(self) -> None:
        seen = _fences.get(self._owner, 0)
        if seen <= self._context.token:
            _fences[self._owner] = self._context.token
            return
        is_closed = seen == CLOSED
        msg = (
            "another lineage has succeeded this one"
            if is_closed
            else "a later owner of the job has taken over the sink"
        )
        raise Fenced(
            msg,
            step=self._context.step,
            found=f"token {self._context.token}",
            known=None if is_closed else f"token {seen}",
            hint="end this run; the later one goes on",
        )

    def check_newer(self, history: Sequence[tuple[str, int]]) -> None:
        """Refuse rows that others published beyond the history."""
        with _lock:
            beyond = self._beyond(dict(history))
            if any(_published[key].num_rows for key in beyond):
                raise self._newer_output([_published[key].num_rows for key in beyond])

    def _beyond(self, last: dict[str, int]) -> list[tuple[RowOwner, Epoch]]:
        published = [key for key in _published if self._is_other(key[0])]
        return [(owner, epoch) for owner, epoch in published if epoch > last.get(owner.lineage, -1)]

    def succeed(self, history: Sequence[tuple[str, int]], newer: NewerOutput) -> None:
        """Close the other lineages of the job and step; drop what they published beyond the history, keep it or refuse."""
        last = dict(history)
        with _lock:
            self._check_token()
            beyond = self._beyond(last)
            if newer == "refuse" and any(_published[key].num_rows for key in beyond):
                raise self._newer_output([_published[key].num_rows for key in beyond])
            others = {owner for owner, _ in _published if self._is_other(owner)} | {
                owner for owner in _fences if self._is_other(owner)
            }
            others |= {self._owner._replace(lineage=lineage) for lineage in last if lineage != self._owner.lineage}
            _fences.update(dict.fromkeys(others, CLOSED))
            for key in beyond if newer == "truncate" else []:
                del _published[key]

    def _is_other(self, owner: RowOwner) -> bool:
        return owner != self._owner and owner._replace(lineage=self._owner.lineage) == self._owner

    def _newer_output(self, rows: Sequence[int]) -> CheckpointRefused:
        msg = "the sink holds output beyond the point that this lineage starts from"
        return CheckpointRefused(
            msg,
            code="SINK-003",
            step=self._context.step,
            found=f"{sum(map(bool, rows))} epochs with {sum(rows)} rows",
            known="refuse, keep, truncate",
            hint="pass --on-newer-output keep to leave them in place, or truncate to remove them",
        )

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """The messages in their order."""
        return {"rows": sum(message["rows"] for message in messages), "messages": list(messages)}

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Keep the epoch's rows; the same rows again change nothing."""
        tables = [table_from_text(message["data"]) for message in transaction["messages"]]
        table = pa.concat_tables([self._context.schema.arrow.empty_table(), *tables])
        with _lock:
            self._check_token()
            kept = _published.setdefault((self._owner, epoch), table)
        if not _has_equal_rows(kept, table):
            msg = f"epoch {epoch} is already published with other rows"
            raise CheckpointRefused(
                msg,
                code="SINK-001",
                step=self._context.step,
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
