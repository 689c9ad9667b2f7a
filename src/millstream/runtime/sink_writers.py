"""The sinks of a task: rows are staged by writers, which finish with a message or leave nothing behind."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

from millstream.contract.sink import SinkTask, SinkWriter
from millstream.graph.operations.endpoints import Sink
from millstream.graph.stream_graph import StreamNode
from millstream.model.ids import Epoch
from millstream.plan.epoch import EpochPlan
from millstream.records.batch import Batch
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.closing import OpenedParts
from millstream.runtime.messages import RunIdentity, TaskReport
from millstream.runtime.program import LevelProgram
from millstream.runtime.vertex_clock import VertexClock


def staging_folder(root: str, sink: str, lineage: str) -> str:
    """Where a sink, by its uid, may stage what a lineage writes."""
    return f"{root}/{sink}/{lineage}"


class SinkWriters:
    """The writers of the sinks that have rows in one task."""

    def __init__(
        self, program: LevelProgram, plan: EpochPlan, run: RunIdentity, report: TaskReport, ledger: Ledger
    ) -> None:
        self._program, self._plan, self._run, self._report, self._ledger = program, plan, run, report, ledger
        self.attempt = uuid.uuid4().hex[:12]
        """Names what this very attempt of the task writes."""
        self._writers: dict[str, SinkWriter] = {}
        self._vertices: dict[str, str] = {}

    def write(self, node: StreamNode, vertex: str, batch: Batch) -> None:
        """Hand rows to a sink's writer, opened with its first row."""
        if node.id not in self._writers:
            self._vertices[node.id] = vertex
            self._writers[node.id] = self._opened(node)
        counts = self._ledger.count(node.id)
        counts.rows_in += batch.num_rows
        counts.passed += batch.num_rows
        counts.rows_out += batch.num_rows
        self._writers[node.id].write(batch.rows)
        size = batch.rows.nbytes
        self._report.staged_bytes += size
        self._report.sent_bytes[vertex] = self._report.sent_bytes.get(vertex, 0) + size

    def _opened(self, node: StreamNode) -> SinkWriter:
        assert isinstance(node.operation, Sink)
        assert node.input_schema is not None
        task = SinkTask(
            job=self._program.deployment.name,
            lineage=self._run.lineage,
            token=self._run.token,
            step=node.uid,
            epoch=Epoch(self._plan.epoch),
            task=f"{self._report.level}-{self._report.task}",
            attempt=self.attempt,
            staging=staging_folder(self._run.staging, node.uid, self._run.lineage),
        )
        return self._program.sink_writer(node)(node.operation.connector.options, node.input_schema, task)

    def finish(self, clock: VertexClock) -> None:
        """Take the commit messages of all sinks into the report."""
        for step, writer in self._writers.items():
            clock.enter(self._vertices[step], step)
            message = writer.finish()
            clock.leave()
            if message is not None:
                self._report.sinks[step] = message

    @contextlib.contextmanager
    def aborting(self) -> Iterator[None]:
        """A task that does not reach its end leaves nothing staged."""
        try:
            yield
        except BaseException as problem:
            staged = OpenedParts()
            for step, writer in self._writers.items():
                staged.add(f"the writer of {step!r}", writer.abort)
            staged.close(problem)
            raise
