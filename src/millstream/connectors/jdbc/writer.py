"""The halves that run in workers: one stages the rows of a task, the other writes them to the target at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.connectors.jdbc.cells import HASHES, Rows, checksum_of, refuse_nul, refuse_null_keys, rows_of
from millstream.connectors.jdbc.database import Cursor, Database
from millstream.connectors.jdbc.fence import hold_fence
from millstream.connectors.jdbc.layout import Layout, definition, layout_of, open_database
from millstream.connectors.jdbc.merge import merge_statements
from millstream.connectors.jdbc.parts import delete_parts, part_number
from millstream.contract.sink import SinkTask
from millstream.model.connector import Options
from millstream.model.schema import Schema

_MOST_BYTES = 16 << 20


class _Buffer:
    """Checked batches of one task, and how many rows went before them."""

    def __init__(self, database: Database, layout: Layout, step: str, *, most: int) -> None:
        self._most = most
        self._database = database
        self._layout = layout
        self._step = step
        self._batches: list[pa.RecordBatch] = []
        self.before = 0
        self.held = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self.held >= self._most or self._bytes >= _MOST_BYTES

    def pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch in parts, none of which makes a statement too long with what is held when it is asked for."""
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, self._most - self.held)
            start += piece.num_rows
            yield piece

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        first = self.before + self.held
        refuse_null_keys(batch, self._layout.keys, step=self._step, first=first)
        if self._database.refuses_nul():
            refuse_nul(batch, self._layout.schema, step=self._step, first=first)
        self._batches.append(batch)
        self.held += batch.num_rows
        self._bytes += batch.nbytes

    def take(self) -> Rows:
        rows = rows_of(self._batches, self._layout.schema)
        self._batches, self._bytes = [], 0
        self.before += self.held
        self.held = 0
        return rows


class JdbcWriter:
    """Adds rows to the staging table, or to an outbox, where nobody sees them until their part is published."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        self._database = open_database(options, job=task.job, step=task.step)
        self._layout = layout_of(options, schema, self._database, step=task.step)
        self._task = task
        self._sink = (task.job, task.lineage, task.step)
        self._part = part_number(self._sink, task.epoch, task.task, task.attempt)
        self._buffer = _Buffer(self._database, self._layout, task.step, most=options["batch_rows"])
        self._hash = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Hold the batch; send what is held when it is much."""
        for piece in self._buffer.pieces(batch):
            self._buffer.add(piece)
            if self._buffer.is_full:
                self._send()

    def finish(self) -> Any:
        """Send what is left; the message says how many rows there are, and the sum of their hashes."""
        try:
            if self._buffer.held:
                self._send()
        finally:
            self._database.close()
        rows, task = self._buffer.before, self._task
        if not rows:
            return None
        return {"epoch": task.epoch, "task": task.task, "attempt": task.attempt, "rows": rows, "hash": self._hash}

    def abort(self) -> None:
        """Remove what was sent."""
        try:
            if self._buffer.before:
                self._database.run(lambda cursor: delete_parts(cursor, self._layout, self._layout.place, [self._part]))
        finally:
            self._database.close()

    def _send(self) -> None:
        start = self._buffer.before
        rows = self._buffer.take()
        hashes = rows.hashes()
        self._database.run(lambda cursor: self._add(cursor, rows, hashes, start))
        self._hash = (self._hash + checksum_of(hashes)) % HASHES

    def _add(self, cursor: Cursor, rows: Rows, hashes: pa.Array, start: int) -> None:
        """Add rows once, also when the reply to an earlier try was lost: the part's count tells."""
        layout, task, mark = self._layout, self._task, self._layout.mark
        cursor.execute(
            f"INSERT INTO {layout.part} (part, job, lineage, step, epoch, task, attempt, place, rows, is_published) "
            f"VALUES ({layout.marks(8)}, 0, FALSE) ON CONFLICT DO NOTHING",
            (self._part, *self._sink, task.epoch, task.task, task.attempt, layout.place_table),
        )
        cursor.execute(
            f"UPDATE {layout.part} SET rows = {mark}1 WHERE part = {mark}2 AND rows = {mark}3",
            (start + len(rows), self._part, start),
        )
        if cursor.rowcount == 0:
            return
        numbers = np.arange(start, start + len(rows))
        before = {"ms_part": pa.array(np.full(len(rows), self._part)), "ms_seq": pa.array(numbers)}
        self._database.add(cursor, layout.place, layout.schema, rows, {**before, "ms_hash": hashes})


class JdbcDirectWriter:
    """Writes a task's rows to the target in one transaction, which also checks the fence."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        self._database = open_database(options, job=task.job, step=task.step)
        self._layout = layout_of(options, schema, self._database, step=task.step)
        self._task = task
        self._most = options["batch_rows"]
        self._buffer = _Buffer(self._database, self._layout, task.step, most=self._most)

    def write(self, batch: pa.RecordBatch) -> None:
        """Hold the batch."""
        self._buffer.add(batch)

    def finish(self) -> Any:
        """Write what was held; rows are visible when this returns."""
        if not self._buffer.held:
            return None
        rows = self._buffer.take()
        add: Callable[[Any, Rows], None] = self._upsert if self._layout.keys else self._insert

        def work(cursor: Cursor) -> None:
            hold_fence(cursor, self._database, self._layout, self._task)
            add(cursor, rows)

        try:
            self._database.run(work)
        finally:
            self._database.close()
        return {"rows": len(rows)}

    def _insert(self, cursor: Any, rows: Rows) -> None:
        for start in range(0, len(rows), self._most):
            self._database.add(cursor, self._layout.target, self._layout.schema, rows.part(start, self._most), {})

    def _upsert(self, cursor: Any, rows: Rows) -> None:
        columns = ", ".join(definition(self._database, field) for field in self._layout.schema)
        arrived = self._database.temporary(cursor, f"ms_seq BIGINT, {columns}")
        for start in range(0, len(rows), self._most):
            part = rows.part(start, self._most)
            numbers = pa.array(np.arange(start, start + len(part)))
            self._database.add(cursor, arrived, self._layout.schema, part, {"ms_seq": numbers})
        for statement in merge_statements(self._layout, f"{arrived} s", "s.ms_seq DESC"):
            cursor.execute(statement, ())

    def abort(self) -> None:
        """Nothing was written before `finish`."""
        self._database.close()
