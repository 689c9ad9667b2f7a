"""Rows on their way through a level: from vertex to vertex by direct calls, and out to senders and sinks."""

from __future__ import annotations

from collections.abc import Callable

from millstream.graph.job_graph import Vertex
from millstream.graph.operations.endpoints import Sink
from millstream.graph.step import DEAD, MAIN
from millstream.plan.partitioned import PlannedEdge
from millstream.records.batch import Batch
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.chain.stages import Stage, run_stages
from millstream.runtime.exchange.cells import AFTER
from millstream.runtime.exchange.senders import Sender
from millstream.runtime.program import LevelProgram
from millstream.runtime.sink_writers import SinkWriters
from millstream.runtime.vertex_clock import VertexClock
from millstream.runtime.wiring import TaskSenders

Route = Callable[[Batch, int], None]
"""Takes rows and their phase."""


class RowFlow:
    """Who gets the rows of which output, in one task."""

    def __init__(
        self, program: LevelProgram, senders: TaskSenders, writers: SinkWriters, ledger: Ledger, clock: VertexClock
    ) -> None:
        self._program, self._writers, self._ledger, self._clock = program, writers, ledger, clock
        self._routes: dict[tuple[str, str], list[Route]] = {}
        for planned in program.edges:
            if planned.from_level != program.level:
                continue
            route = self._routes.setdefault((planned.edge.source_step, planned.edge.output), [])
            is_local = planned.is_local
            route.append(self._local(planned.edge.target) if is_local else self._sent(senders.open(planned), planned))

    def _local(self, vertex_id: str) -> Route:
        vertex = self._program.vertex(vertex_id)
        return lambda batch, phase: self.push(vertex, batch, phase)

    def _sent(self, sender: Sender, planned: PlannedEdge) -> Route:
        """What is done for a step before its rows are sent, such as combining them, is its work."""

        def send(batch: Batch, phase: int) -> None:
            self._clock.enter_step(planned.edge.target)
            sender.send(batch, phase)
            self._clock.leave()

        return send

    def push(self, vertex: Vertex, batch: Batch, phase: int, stages: list[Stage] | None = None) -> None:
        """Run a vertex's chain over rows of its head; some of its stages, for rows that enter further behind."""
        self._clock.enter(vertex.id)
        chain = self._program.stages[vertex.id] if stages is None else stages
        for made in run_stages(chain, batch, self._ledger):
            last = vertex.nodes[-1]
            if isinstance(last.operation, Sink):
                self._clock.enter_step(last.id)
                self._writers.write(last, vertex.id, made)
                self._clock.leave()
            else:
                self.route(last.id, MAIN, made, phase)
        for step, letters in self._ledger.dead_letters():
            self.route(step, DEAD, Batch(letters), phase)
        self._clock.leave()

    def route(self, step: str, output: str, batch: Batch, phase: int) -> None:
        """Hand on rows of an output of a step."""
        for route in self._routes.get((step, output), ()):
            route(batch, phase)

    def route_letters(self) -> None:
        """Hand on the dead letters of what no chain was run for."""
        for step, letters in self._ledger.dead_letters():
            self.route(step, DEAD, Batch(letters), AFTER)
