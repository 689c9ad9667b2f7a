"""One task of one epoch: all vertices of a level, in this process, from input splits or cells to cells and a report.

Vertices of a level are joined by direct calls. Rows for later levels become cells in the outbox; rows for sinks are staged
by their writers; everything the driver must know stands in the task's report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from millstream.contract.pages import PageStore, WeighedPages
from millstream.contract.source import BadRecord, LostRows
from millstream.errors import MillstreamError
from millstream.graph.job_graph import Vertex
from millstream.graph.operations.endpoints import Source
from millstream.graph.step import LATE, MAIN
from millstream.model.counts import StepCounts
from millstream.plan.epoch import EpochPlan, times_for
from millstream.records.batch import Batch
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.conflation import Part, newest_rows
from millstream.runtime.exchange.cells import AFTER, BEFORE, DRIVER, PLAN_PORT, Cell, Outbox
from millstream.runtime.exchange.gate import InputGate
from millstream.runtime.messages import PlanCell, RunIdentity, TaskInput, TaskReport
from millstream.runtime.operators.contract import Emit, EpochWork, WorkIdentity
from millstream.runtime.program import LevelProgram
from millstream.runtime.replays import REPLAY, Replays, is_replay_port
from millstream.runtime.row_flow import RowFlow
from millstream.runtime.sink_writers import SinkWriters
from millstream.runtime.source_readers import SourceReaders
from millstream.runtime.subtask_state import export_state, restore_state
from millstream.runtime.vertex_clock import VertexClock
from millstream.runtime.wiring import TaskSenders, late_port
from millstream.state.kept_pages import KeptPages


class _TaskLedger(Ledger):
    """Collects what stages report."""

    def __init__(self, report: TaskReport, now: int, clock: VertexClock) -> None:
        super().__init__(self._counts_of, now, clock)
        self._report = report
        self.partition = f"{report.level}/{report.task}"

    def _counts_of(self, step: str) -> StepCounts:
        counts = self._report.counts.get(step)
        if counts is None:
            counts = self._report.counts[step] = StepCounts()
        return counts

    def saw_times(self, step: str, newest: int, *, rows: int, mark: int | None) -> None:
        if self.is_replaying:
            return
        seen = self._report.newest.setdefault(step, {})
        seen[self.partition] = max(newest, seen.get(self.partition, newest))
        counted = self._report.timed.setdefault(step, {})
        counted[self.partition] = counted.get(self.partition, 0) + rows
        if mark is not None:
            marks = self._report.marks.setdefault(step, {})
            marks[self.partition] = max(mark, marks.get(self.partition, mark))


class LevelTask:
    """One run of a level program."""

    def __init__(
        self, program: LevelProgram, plan: EpochPlan, *, task: int, tasks: int, run: RunIdentity, attempt: int = 0
    ) -> None:
        self._program, self._plan, self._run = program, plan, run
        self._outbox = Outbox(task)
        self._report = TaskReport(level=program.level, task=task, tasks=tasks, attempt=attempt, busy={}, spent={})
        self._clock = VertexClock(self._report.busy, self._report.spent)
        self._ledger = _TaskLedger(self._report, plan.now, self._clock)
        self._writers = SinkWriters(program, plan, run, self._report, self._ledger)
        self._senders = TaskSenders(program, plan, self._ledger, self._outbox)
        self._flow = RowFlow(program, self._senders, self._writers, self._ledger, self._clock)
        self._replays = Replays(program, self._ledger, self._outbox, self._flow)
        program.functions.begin(self._report.metrics, subtask=task, attempt=attempt)

    def read(self, splits: Iterable[tuple[str, str, Any]]) -> Iterator[Cell]:
        """Level 0: read splits and push their rows through the chains."""
        with self._writers.aborting(), SourceReaders() as readers:
            for source, partition, body in splits:
                if source.startswith(REPLAY):
                    self._replays.read(source.removeprefix(REPLAY), body)
                    yield from self._outbox.drain()
                    continue
                vertex = self._program.vertex(source)
                self._ledger.partition = f"{source}/{partition}"
                yield from self._read_split(vertex, readers, body)
            yield from self._finish()

    def _read_split(self, vertex: Vertex, readers: SourceReaders, body: Any) -> Iterator[Cell]:
        operation = vertex.head.operation
        assert isinstance(operation, Source)
        counts = self._ledger.count(vertex.id)
        bad = self._ledger.bad_records(vertex.id, operation.on_error)
        self._clock.enter(vertex.id)
        for item in self._parts(vertex, operation, readers, body):
            if isinstance(item, BadRecord):
                counts.rows_in += 1
                bad.refuse(item.raw, item.error, origin=item.origin)
                continue
            if isinstance(item, LostRows):
                self._lose(vertex.id, item.reason, item.rows)
                continue
            for name in ("rows_in", "passed", "rows_out"):
                setattr(counts, name, getattr(counts, name) + item.num_rows)
            self._flow.push(vertex, Batch(item), AFTER)
            self._clock.leave()
            yield from self._outbox.drain()
            self._clock.enter(vertex.id)
        self._clock.leave()

    def _parts(self, vertex: Vertex, source: Source, readers: SourceReaders, body: Any) -> Iterator[Part]:
        """What a reader gives of a split; where the plan says so, the newest row of each key."""
        parts = self._weighed(vertex.id, readers.of(vertex.id, source).read(body))
        if vertex.id not in self._plan.conflated or source.flow is None:
            return parts
        return newest_rows(parts, source.flow.key, lambda rows: self._lose(vertex.id, "latest", rows))

    def _weighed(self, source: str, parts: Iterator[Part]) -> Iterator[Part]:
        try:
            for part in parts:
                if isinstance(part, pa.RecordBatch):
                    self._report.read_bytes[source] = self._report.read_bytes.get(source, 0) + part.nbytes
                yield part
        except MillstreamError as problem:
            # Readers are given no step, and name what they read.
            raise problem.of_step(source, instead=True) from problem

    def _lose(self, source: str, reason: str, rows: int) -> None:
        if rows:
            lost = self._report.lost.setdefault(source, {})
            lost[reason] = lost.get(reason, 0) + rows

    def run(self, cells: Iterable[Cell], store: PageStore) -> Iterator[Cell]:
        """Levels above 0: run keyed operators and chains over the cells of one subtask."""
        mine: list[Cell] = []
        for cell in cells:
            if cell.level == self._program.level:
                mine.append(cell)
            else:
                self._outbox.forward(cell)
        yield from self._outbox.drain()
        gate, store = InputGate(mine), WeighedPages(store)
        with self._writers.aborting():
            restore_state(self._program, self._plan, self._run, self._report.task, store)
            for vertex in self._program.vertices:
                self._clock.enter(vertex.id)
                self._run_vertex(vertex, gate, store)
                self._clock.leave()
                yield from self._outbox.drain()
            exported = export_state(self._program, self._plan, self._report.task, self._writers.attempt, store)
            self._report.savepoint, self._report.state_bytes = exported, store.written
            yield from self._finish()

    def _run_vertex(self, vertex: Vertex, gate: InputGate, store: PageStore) -> None:
        ports = [e.port for e in self._program.edges if e.edge.target == vertex.id and not e.is_local]
        self._report.received_bytes[vertex.id] = gate.received(ports)
        if vertex.is_keyed:
            self._run_keyed(vertex, ports, gate, store)
        for phase in (BEFORE, AFTER) if not vertex.is_keyed else ():
            for port in ports:
                for batch in gate.batches(port, phase):
                    self._flow.push(vertex, batch, phase)
        if self._plan.replays:
            self._replays.push(vertex, gate)

    def _run_keyed(self, vertex: Vertex, ports: list[int], gate: InputGate, store: PageStore) -> None:
        emit = self._emit_of(vertex)
        work = self._work(vertex, ports, gate, store, emit)
        for phase in (BEFORE, AFTER):
            for port in ports:
                for batch in gate.batches(late_port(port), phase):
                    emit(LATE, batch, phase)
        due = self._program.operators[vertex.id].run(work)
        self._report.event_due[vertex.id] = due.event
        self._report.processing_due = min(self._report.processing_due, due.processing)
        self._flow.route_letters()

    def _emit_of(self, vertex: Vertex) -> Emit:
        """Rows of the main output go on through the vertex's chain, those of others to whom they are for."""

        def emit(output: str, batch: Batch, phase: int) -> None:
            if output == MAIN:
                self._flow.push(vertex, batch, phase)
            else:
                self._flow.route(vertex.id, output, batch, phase)

        return emit

    def _work(self, vertex: Vertex, ports: list[int], gate: InputGate, store: PageStore, emit: Emit) -> EpochWork:
        # The edges of a vertex are planned in the order of its inputs.
        first, second = (ports[:1], ports[1:]) if vertex.head.operation.takes == "pair" else (ports, [])
        replayed = self._replays.tables(vertex, gate) if self._plan.replays else []
        return EpochWork(
            times=times_for(self._plan, vertex.head.event_time),
            before=_tables(gate, first, BEFORE),
            after=_tables(gate, first, AFTER) + replayed,
            store=store,
            emit=emit,
            ledger=self._ledger,
            other_before=_tables(gate, second, BEFORE),
            other_after=_tables(gate, second, AFTER),
            subtask=self._report.task,
            state_bytes=self._program.deployment.memory.state_bytes,
            params=self._program.deployment.params,
            identity=self._identity,
        )

    @property
    def _identity(self) -> WorkIdentity:
        job, run = self._program.deployment.name, self._run
        return WorkIdentity(job, run.lineage, run.token, self._plan.epoch, self._report.attempt)

    def _finish(self) -> Iterator[Cell]:
        """Close senders and writers; the last cells are the plan for the next level and the report."""
        self._flow.route_letters()
        self._senders.close()
        self._writers.finish(self._clock)
        for port, size in self._outbox.sent.items():
            if is_replay_port(port):
                continue
            vertex = self._senders.vertex(port)
            self._report.sent_bytes[vertex] = self._report.sent_bytes.get(vertex, 0) + size
        if self._report.level == 0 and self._report.task == 0:
            self._report.plan = self._plan
        self._outbox.add(
            self._report.task % self._parallelism, DRIVER, PLAN_PORT, AFTER, msgspec.msgpack.encode(self._report)
        )
        yield from self._outbox.drain()

    @property
    def _parallelism(self) -> int:
        return self._program.deployment.plan.parallelism


def _tables(gate: InputGate, ports: list[int], phase: int) -> list[pa.Table]:
    return [table for port in ports for table in gate.tables(port, phase)]


def run_source_task(program: LevelProgram, given: TaskInput, *, attempt: int = 0) -> Iterator[Cell]:
    """A level-0 task. Task 0 also tells every subtask of level 1 the plan. `attempt` says how often it was tried before."""
    task = LevelTask(program, given.plan, task=given.task, tasks=given.tasks, run=given.run, attempt=attempt)
    if given.task == 0 and not program.is_last:
        outbox = Outbox(0)
        body = msgspec.msgpack.encode(PlanCell(given.plan, given.run))
        for slot in range(program.deployment.plan.parallelism):
            outbox.add(slot, 1, PLAN_PORT, BEFORE, body)
        yield from outbox.drain()
    yield from task.read(given.splits)


def run_subtask(
    program: LevelProgram, subtask: int, cells: Iterable[Cell], store: PageStore, *, attempt: int = 0
) -> Iterator[Cell]:
    """A task of a level above 0; passes the plan on to the level behind it."""
    held = list(cells)
    level = program.level
    plans = [cell for cell in held if cell.level == level and msgspec.msgpack.decode(cell.head)[0] == PLAN_PORT]
    assert len(plans) == 1, f"subtask {subtask} of level {level} needs one epoch plan, got {len(plans)}"
    told = msgspec.msgpack.decode(plans[0].body, type=PlanCell)
    if not program.is_last:
        yield plans[0]._replace(level=level + 1)
    parallelism = program.deployment.plan.parallelism
    task = LevelTask(program, told.plan, task=subtask, tasks=parallelism, run=told.run, attempt=attempt)
    cells = (cell for cell in held if cell is not plans[0])
    if program.deployment.state_backend != "memory":
        yield from task.run(cells, store)
        return
    limit = program.deployment.memory.cache_bytes
    kept = KeptPages(store, level, subtask, lineage=told.run.lineage, token=told.run.token, limit=limit)
    yield from task.run(cells, kept)
    kept.close()
