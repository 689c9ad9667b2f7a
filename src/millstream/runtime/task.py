"""One task of one epoch: all vertices of a level, in this process, from input splits or cells to cells and a report.

Vertices of a level are joined by direct calls. Rows for later levels become cells in the outbox; rows for sinks are staged
by their writers; everything the driver must know stands in the task's report.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from millstream.contract.pages import PageStore
from millstream.contract.sink import SinkTask, SinkWriter
from millstream.contract.source import BadRecord
from millstream.graph.job_graph import Vertex
from millstream.graph.step import DEAD, LATE, MAIN, TWO_INPUTS, Sink, Source
from millstream.graph.stream_graph import StreamNode
from millstream.model.connector import source_declaration
from millstream.model.counts import StepCounts
from millstream.model.ids import Epoch
from millstream.plan.epoch import EpochPlan, times_for
from millstream.plan.partitioned import PlannedEdge
from millstream.records.batch import Batch
from millstream.registry import load
from millstream.runtime.chain.stages import Ledger, run_stages
from millstream.runtime.closing import OpenedParts
from millstream.runtime.exchange.cells import (
    AFTER,
    BEFORE,
    DRIVER,
    PLAN_PORT,
    BroadcastSender,
    CanonicalSender,
    Cell,
    InputGate,
    Outbox,
    RowSender,
    Sender,
    Target,
    by_key,
    round_robin,
    same_subtask,
)
from millstream.runtime.messages import PlanCell, RunIdentity, TaskInput, TaskReport
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import SendingEnd
from millstream.runtime.operators.kinds import kind_of
from millstream.runtime.program import LevelProgram
from millstream.runtime.subtask_state import export_state, restore_state
from millstream.runtime.vertex_clock import VertexClock
from millstream.state.kept_pages import KeptPages


class _TaskLedger(Ledger):
    """Collects what stages report."""

    def __init__(self, report: TaskReport, now: int) -> None:
        super().__init__(self._counts_of, now)
        self._report = report
        self.partition = f"{report.level}/{report.task}"

    def _counts_of(self, step: str) -> StepCounts:
        counts = self._report.counts.get(step)
        if counts is None:
            counts = self._report.counts[step] = StepCounts()
        return counts

    def saw_times(self, step: str, newest: int, *, rows: int, mark: int | None) -> None:
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
        self._report = TaskReport(level=program.level, task=task, tasks=tasks)
        self._ledger = _TaskLedger(self._report, plan.now)
        self._clock = VertexClock(self._report.busy)
        self._writers: dict[str, SinkWriter] = {}
        self._staging: dict[str, str] = {}
        """The vertex of each sink that has rows."""
        self._attempt = uuid.uuid4().hex[:12]
        self._senders: dict[int, Sender] = {}
        self._routes: dict[tuple[str, str], list[Callable[[Batch, int], None]]] = {}
        self._connect()
        program.functions.begin(self._report.metrics, subtask=task, attempt=attempt)

    # Wiring: who gets the rows of which output.

    def _connect(self) -> None:
        for planned in self._program.edges:
            if planned.from_level != self._program.level:
                continue
            route = self._routes.setdefault((planned.edge.source_step, planned.edge.output), [])
            if planned.is_local:
                route.append(self._local_route(planned.edge.target))
            else:
                sender = self._sender(planned)
                if floats := self._program.float_keys.get(planned.port):
                    sender = CanonicalSender(sender, floats)
                self._senders[planned.port] = sender
                route.append(sender.send)

    def _local_route(self, vertex_id: str) -> Callable[[Batch, int], None]:
        vertex = next(vertex for vertex in self._program.vertices if vertex.id == vertex_id)
        return lambda batch, phase: self._push(vertex, batch, phase)

    def _sender(self, planned: PlannedEdge) -> Sender:
        plan = self._program.deployment.plan
        target = Target(planned.port, planned.to_level, plan.parallelism, plan.key_groups)
        payload = self._program.deployment.memory.payload_bytes
        if planned.edge.partition == "broadcast":
            return BroadcastSender(target, self._outbox, payload)
        choosers = {
            "hash": lambda: by_key(planned.edge.keys, target),
            "single": lambda: by_key((), target),
            "rebalance": lambda: round_robin(target, self._report.task),
            "forward": lambda: same_subtask(target, self._report.task),
        }
        rows = RowSender(target, self._outbox, choosers[planned.edge.partition](), payload)
        return self._keyed_sender(planned, target, rows) if planned.edge.partition == "hash" else rows

    def _keyed_sender(self, planned: PlannedEdge, target: Target, rows: RowSender) -> Sender:
        """Where the operator behind an edge has a sending half, that; its rows are fewer than those that came."""
        node = self._program.node(planned.edge.target)
        open_sender = kind_of(node).sender
        if open_sender is None:
            return rows
        return open_sender(
            SendingEnd(
                node=node,
                target=target,
                outbox=self._outbox,
                rows=rows,
                counts=self._ledger.count(node.id),
                times=times_for(self._plan, node.event_time),
                payload_bytes=self._program.deployment.memory.payload_bytes,
                open_late=lambda: self._late_sender(node, target),
            )
        )

    def _late_sender(self, node: StreamNode, target: Target) -> Sender | None:
        if not any(e.edge.source_step == node.id and e.edge.output == LATE for e in self._program.edges):
            return None
        late_target = target._replace(port=late_port(target.port))
        payload = self._program.deployment.memory.payload_bytes
        late = RowSender(late_target, self._outbox, by_key(node.keys, target), payload)
        self._senders[late_target.port] = late
        return late

    # Rows on their way.

    def _push(self, vertex: Vertex, batch: Batch, phase: int) -> None:
        """Run a vertex's chain over rows of its head."""
        self._clock.enter(vertex.id)
        for made in run_stages(self._program.stages[vertex.id], batch, self._ledger):
            last = vertex.nodes[-1]
            if isinstance(last.operation, Sink):
                self._staging[last.id] = vertex.id
                self._stage(last, made)
            else:
                self._route(last.id, MAIN, made, phase)
        for step, letters in self._ledger.dead_letters():
            self._route(step, DEAD, Batch(letters), phase)
        self._clock.leave()

    def _route(self, step: str, output: str, batch: Batch, phase: int) -> None:
        for route in self._routes.get((step, output), ()):
            route(batch, phase)

    def _stage(self, node: StreamNode, batch: Batch) -> None:
        """Hand rows to a sink's writer, opened with its first row."""
        if node.id not in self._writers:
            assert isinstance(node.operation, Sink)
            assert node.input_schema is not None
            connector = node.operation.connector
            task = SinkTask(
                job=self._program.deployment.name,
                lineage=self._run.lineage,
                token=self._run.token,
                step=node.uid,
                epoch=Epoch(self._plan.epoch),
                task=f"{self._report.level}-{self._report.task}",
                attempt=self._attempt,
            )
            self._writers[node.id] = self._program.sink_writer(node)(connector.options, node.input_schema, task)
        counts = self._ledger.count(node.id)
        counts.rows_in += batch.num_rows
        counts.passed += batch.num_rows
        counts.rows_out += batch.num_rows
        self._writers[node.id].write(batch.rows)

    # The two kinds of task.

    def read(self, splits: Iterable[tuple[str, str, Any]]) -> Iterator[Cell]:
        """Level 0: read splits and push their rows through the chains."""
        with self._aborting():
            for source, partition, body in splits:
                vertex = next(vertex for vertex in self._program.vertices if vertex.id == source)
                self._ledger.partition = f"{source}/{partition}"
                yield from self._read_split(vertex, body)
            yield from self._finish()

    def _read_split(self, vertex: Vertex, body: Any) -> Iterator[Cell]:
        operation = vertex.head.operation
        assert isinstance(operation, Source)
        declared = source_declaration(operation.connector)
        counts = self._ledger.count(vertex.id)
        bad = self._ledger.bad_records(vertex.id, operation.on_error)
        self._clock.enter(vertex.id)
        for item in load(declared.reader)(operation.connector.options, operation.schema).read(body):
            if isinstance(item, BadRecord):
                counts.rows_in += 1
                bad.refuse(item.raw, item.error)
                continue
            for name in ("rows_in", "passed", "rows_out"):
                setattr(counts, name, getattr(counts, name) + item.num_rows)
            self._push(vertex, Batch(item), AFTER)
            self._clock.leave()
            yield from self._outbox.drain()
            self._clock.enter(vertex.id)
        self._clock.leave()

    def run(self, cells: Iterable[Cell], store: PageStore) -> Iterator[Cell]:
        """Levels above 0: run keyed operators and chains over the cells of one subtask."""
        mine: list[Cell] = []
        for cell in cells:
            if cell.level == self._program.level:
                mine.append(cell)
            else:
                self._outbox.forward(cell)
        yield from self._outbox.drain()
        gate = InputGate(mine)
        with self._aborting():
            restore_state(self._program, self._plan, self._run, self._report.task, store)
            for vertex in self._program.vertices:
                self._clock.enter(vertex.id)
                self._run_vertex(vertex, gate, store)
                self._clock.leave()
                yield from self._outbox.drain()
            exported = export_state(self._program, self._plan, self._report.task, self._attempt, store)
            self._report.savepoint = exported
            yield from self._finish()

    @contextlib.contextmanager
    def _aborting(self) -> Iterator[None]:
        """A task that does not reach its end leaves nothing staged."""
        try:
            yield
        except BaseException as problem:
            staged = OpenedParts()
            for step, writer in self._writers.items():
                staged.add(f"the writer of {step!r}", writer.abort)
            staged.close(problem)
            raise

    def _run_vertex(self, vertex: Vertex, gate: InputGate, store: PageStore) -> None:
        ports = [e.port for e in self._program.edges if e.edge.target == vertex.id and not e.is_local]
        if vertex.is_keyed:
            self._run_keyed(vertex, ports, gate, store)
            return
        for phase in (BEFORE, AFTER):
            for port in ports:
                for batch in gate.batches(port, phase):
                    self._push(vertex, batch, phase)

    def _run_keyed(self, vertex: Vertex, ports: list[int], gate: InputGate, store: PageStore) -> None:
        def emit(output: str, batch: Batch, phase: int) -> None:
            if output == MAIN:
                self._push(vertex, batch, phase)
            else:
                self._route(vertex.id, output, batch, phase)

        # The edges of a vertex are planned in the order of its inputs.
        first, second = (ports[:1], ports[1:]) if isinstance(vertex.head.operation, TWO_INPUTS) else (ports, [])
        work = EpochWork(
            times=times_for(self._plan, vertex.head.event_time),
            before=_tables(gate, first, BEFORE),
            after=_tables(gate, first, AFTER),
            store=store,
            emit=emit,
            ledger=self._ledger,
            other_before=_tables(gate, second, BEFORE),
            other_after=_tables(gate, second, AFTER),
            subtask=self._report.task,
            state_bytes=self._program.deployment.memory.state_bytes,
        )
        for phase in (BEFORE, AFTER):
            for port in ports:
                for batch in gate.batches(late_port(port), phase):
                    emit(LATE, batch, phase)
        due = self._program.operators[vertex.id].run(work)
        self._report.event_due[vertex.id] = due.event
        self._report.processing_due = min(self._report.processing_due, due.processing)
        for step, letters in self._ledger.dead_letters():
            self._route(step, DEAD, Batch(letters), AFTER)

    def _finish(self) -> Iterator[Cell]:
        """Close senders and writers; the last cells are the plan for the next level and the report."""
        for step, letters in self._ledger.dead_letters():
            self._route(step, DEAD, Batch(letters), AFTER)
        for sender in self._senders.values():
            sender.close()
        for step, writer in self._writers.items():
            self._clock.enter(self._staging[step])
            message = writer.finish()
            self._clock.leave()
            if message is not None:
                self._report.sinks[step] = message
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


def late_port(port: int) -> int:
    """The port on which senders deliver rows that came too late for a window."""
    return -2 - port


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
