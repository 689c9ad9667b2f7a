"""Rows of dead letters on their way back: they enter at the step that failed on them, and go on as its other rows do.

A task of level 0 reads the file of a request. A step of that level takes the rows at once, in the middle of its chain where it
stands there; those of a later level are sent to it by a port of its own, by key where it has keys. What one of them shows as
event time moves no watermark: it says nothing about what its source will bring.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from millstream.errors import StepFailed
from millstream.graph.job_graph import Vertex
from millstream.graph.operations.endpoints import Source
from millstream.graph.outputs import OnError
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import Schema
from millstream.records.batch import Batch
from millstream.records.canonical_keys import float_columns, with_canonical
from millstream.records.codecs import batch_to_ipc, shown_rows, table_from_ipc
from millstream.records.replayed import ReplayedRows, replayed_rows, row_columns
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.exchange.cells import AFTER, Outbox
from millstream.runtime.exchange.gate import InputGate
from millstream.runtime.exchange.senders import Target, by_key, round_robin, split_by
from millstream.runtime.program import LevelProgram
from millstream.runtime.row_flow import RowFlow
from millstream.runtime.taken_rows import TakenRow, raw_row

REPLAY = "replay:"
"""Stands before the name of a step in place of that of a source; no step has a colon in its name."""
_PORTS = 1 << 20
"""Ports from here on are no edges of the plan."""


def is_replay_port(port: int) -> bool:
    """Whether a port brings rows of dead letters."""
    return port >= _PORTS


class Replays:
    """What one task does with rows that are replayed."""

    def __init__(self, program: LevelProgram, ledger: Ledger, outbox: Outbox, flow: RowFlow) -> None:
        self._program, self._ledger, self._outbox, self._flow = program, ledger, outbox, flow

    def read(self, step: str, file: str) -> None:
        """Level 0: hand the rows of a request to their step."""
        node = self._program.node(step)
        level = self._program.level_of(step)
        rows = _fitted(_table(step, file), node, self._refused_of(node))
        if rows is None:
            return
        if level == 0:
            self._enter(node, rows)
        else:
            self._send(node, level, rows)

    def push(self, vertex: Vertex, gate: InputGate) -> None:
        """Levels above 0: hand rows to the steps of a chain."""
        for node in vertex.nodes[1:] if vertex.is_keyed else vertex.nodes:
            for table in gate.tables(self._port(node.id), AFTER):
                self._enter(node, replayed_rows(table))

    def tables(self, vertex: Vertex, gate: InputGate) -> list[pa.Table]:
        """Levels above 0: rows for the keyed step that a chain begins with."""
        taken = [replayed_rows(table) for table in gate.tables(self._port(vertex.head.id), AFTER)]
        for rows in taken:
            self._remember(vertex.head, rows)
        return [pa.Table.from_batches([rows.batch.with_time_column()]) for rows in taken]

    def _enter(self, node: StreamNode, rows: ReplayedRows) -> None:
        vertex = self._program.vertex_of(node.id)
        if isinstance(node.operation, Source):
            counts = self._ledger.count(node.id)
            for name in ("rows_in", "passed", "rows_out"):
                setattr(counts, name, getattr(counts, name) + rows.batch.num_rows)
        self._remember(node, rows)
        self._ledger.is_replaying = True
        self._flow.push(vertex, rows.batch, AFTER, self._program.stages_from(vertex, node.id))
        self._ledger.is_replaying = False

    def _send(self, node: StreamNode, level: int, rows: ReplayedRows) -> None:
        plan, keys = self._program.deployment.plan, node.keys
        target = Target(self._port(node.id), level, plan.parallelism, plan.key_groups)
        floats = float_columns(keys, _takes(node)) if keys else ()
        batch = Batch(with_canonical(rows.batch.rows, floats), rows.batch.times) if floats else rows.batch
        choose = by_key(keys, target) if keys else round_robin(target, self._outbox.task)
        # The rest of a letter goes along: places, by which each part finds what belongs to its rows.
        whole = rows._replace(batch=batch).table()
        numbered = Batch(pa.RecordBatch.from_arrays([pa.array(range(batch.num_rows))], names=["place"]))
        for slot, part in split_by(numbered, choose(batch), plan.parallelism):
            body = batch_to_ipc(whole.take(part.rows.column(0)))
            self._outbox.add(slot, level, target.port, AFTER, body)

    def _port(self, step: str) -> int:
        return _PORTS + self._program.place(step)

    def _remember(self, node: StreamNode, rows: ReplayedRows) -> None:
        """Rows that fail again become letters which say so."""
        origins: dict[bytes | None, list[str]] = {}
        times = [None] * rows.batch.num_rows if rows.batch.times is None else rows.batch.times.to_pylist()
        for row, time, origin in zip(shown_rows(rows.batch.rows), times, rows.origins, strict=True):
            origins.setdefault(raw_row(TakenRow(row, time)), []).append(origin)
        bad = self._ledger.bad_records(node.id, _policy(node))
        earlier = bad.origin_of

        def origin_of(raw: bytes | None) -> str:
            if origins.get(raw):
                return origins[raw].pop(0)
            return earlier(raw) if earlier is not None else ""

        bad.origin_of = origin_of

    def _refused_of(self, node: StreamNode) -> Callable[[pa.Table, list[str], str], None]:
        """What becomes of rows that the step cannot take any more: its columns are others now."""

        def refuse(table: pa.Table, origins: list[str], problem: str) -> None:
            counts, bad = self._ledger.count(node.id), self._ledger.bad_records(node.id, _policy(node))
            (batch,) = table.combine_chunks().to_batches() or [None]
            for row, origin in zip([] if batch is None else shown_rows(batch), origins, strict=True):
                counts.rows_in += 1
                bad.refuse(row, problem, origin=origin)

        return refuse


def _policy(node: StreamNode) -> OnError | None:
    policy: OnError | None = getattr(node.operation, "on_error", None)
    return policy


def _takes(node: StreamNode) -> Schema:
    """The columns of the rows that a step takes; of a source, those that it gives."""
    return node.outputs[MAIN] if node.input_schema is None else node.input_schema


def _table(step: str, file: str) -> pa.Table:
    try:
        return table_from_ipc(Path(file).read_bytes())
    except (OSError, pa.ArrowException) as problem:
        msg = "a request to replay dead letters cannot be read"
        hint = "restore the file from a copy: the run cannot go on without it"
        raise StepFailed(msg, code="DLQ-010", step=step, found=f"{file}: {problem}", hint=hint) from problem


def _fitted(
    table: pa.Table, node: StreamNode, refuse: Callable[[pa.Table, list[str], str], None]
) -> ReplayedRows | None:
    """The rows in the columns that the step takes now; where they do not fit, they are letters again."""
    rows, schema = replayed_rows(table), _takes(node)
    names = row_columns(table)
    try:
        if set(names) != set(schema.names):
            msg = f"the step takes other columns now: {', '.join(schema.names)}"
            raise pa.ArrowInvalid(msg)
        cast = rows.batch.rows.select(schema.names).cast(schema.arrow)
    except pa.ArrowException as problem:
        refuse(table.select(names), rows.origins, f"the letter cannot be replayed: {problem}")
        return None
    return rows._replace(batch=Batch(cast, rows.batch.times))
