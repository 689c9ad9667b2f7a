"""One run of a job, apart from the engine: its checkpoint, its sources and sinks, its planner, and the end of each epoch."""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from millstream.checkpoint.coordinator import EpochCoordinator, Identity, StagedEpoch
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.stores.base import ManifestStore
from millstream.checkpoint.stores.local import LocalStore
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.errors import ExternalFailure
from millstream.graph.step import Sink, Source
from millstream.graph.stream_graph import StreamNode
from millstream.model.connector import sink_declaration, source_declaration
from millstream.model.ids import Epoch, Lineage
from millstream.model.time import MIN_TIME
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.connector import SinkCommitter, SinkContext, SourceContext, SplitEnumerator, load
from millstream.runtime.counts import Counts, StepCounts, total
from millstream.runtime.epoch import EpochPlan, plan_from_json
from millstream.runtime.messages import TaskReport
from millstream.runtime.planner import Clock, Planner, PlannerState

_LINEAGE = "lineage.json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EpochSummary:
    """An epoch that was published, in numbers."""

    epoch: int
    rows_in: int
    rows_out: int
    lag: int | None
    watermark: int
    seconds: float
    terminal: bool


Listener = Callable[[EpochSummary], None]


@dataclasses.dataclass(slots=True, kw_only=True)
class RunResult:
    """What a run did; `counts` covers the epochs of this run only."""

    job: str
    checkpoint: str | None
    epochs: int = 0
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    counts: Counts = dataclasses.field(default_factory=dict)
    resumed_from: int | None = None


class Run:
    """Owns everything of a run that does not depend on the engine."""

    def __init__(
        self,
        deployment: DeploymentPlan,
        *,
        engine: Literal["spark", "local"],
        clock: Clock | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.deployment, self._engine = deployment, engine
        self._root = None if deployment.checkpoint is None else Path(deployment.checkpoint)
        store: ManifestStore = MemoryStore() if self._root is None else LocalStore(self._root / "millstream")
        self.lineage = lineage_of(store, deployment.name)
        self._sinks = open_sinks(deployment, self.lineage)
        self._coordinator = EpochCoordinator(store, self._identity(), self._sinks)
        self.resumed: EpochManifest | None = self._coordinator.recover()
        state = None if self.resumed is None else msgspec.convert(self.resumed.planner, PlannerState)
        self._sources = open_sources(deployment, None if self._root is None else self._root / "sources")
        self.planner = Planner(deployment, self._sources, clock or _wall_clock, state)
        self.result = RunResult(
            job=deployment.name,
            checkpoint=deployment.checkpoint,
            resumed_from=None if self.resumed is None else self.resumed.epoch,
        )
        self._listener = listener
        self._began = self._epoch_began = time.monotonic()

    def _identity(self) -> Identity:
        plan = self.deployment.plan
        return Identity(
            job=self.deployment.name,
            lineage=self.lineage,
            guarantee=plan.graph.requirements.guarantee,
            fingerprint=plan.fingerprint,
            engine=self._engine,
            parallelism=plan.parallelism,
        )

    @property
    def is_complete(self) -> bool:
        """Whether the checkpoint's last epoch was the terminal one: there is nothing left to run."""
        return self.resumed is not None and self.resumed.kind == "terminal"

    def resume_plan(self) -> EpochPlan | None:
        """The plan of the last durable epoch."""
        return None if self.resumed is None else plan_from_json(self.resumed.plan)

    def finish_epoch(self, encoded: Sequence[bytes]) -> EpochPlan:
        """Take the reports of all tasks of an epoch, make it durable and publish it."""
        reports = sorted((msgspec.msgpack.decode(r, type=TaskReport) for r in encoded), key=lambda r: (r.level, r.task))
        plan = self._acknowledged(reports)
        self.planner.absorb(plan, reports)
        counts = total(report.counts for report in reports)
        messages: dict[str, list[Any]] = {}
        for report in reports:
            for sink, message in report.sinks.items():
                messages.setdefault(sink, []).append(message)
        self._coordinator.commit(
            StagedEpoch(
                epoch=Epoch(plan.epoch),
                digest=plan.digest,
                plan=plan.to_json(),
                planner=msgspec.to_builtins(self.planner.state),
                messages=messages,
                counts=msgspec.to_builtins(counts),
                terminal=plan.terminal,
            )
        )
        self.planner.acknowledge(plan)
        self._note(plan, counts)
        return plan

    def _acknowledged(self, reports: Sequence[TaskReport]) -> EpochPlan:
        """The epoch's plan, once every task of the acknowledgement set has reported."""
        here = [f"{report.level}/{report.task}" for report in reports]
        first = [report for report in reports if report.level == 0]
        expected = {
            *self.deployment.plan.acknowledgements,
            *(f"0/{task}" for task in range(first[0].tasks if first else 1)),
        }
        plan = next((report.plan for report in first if report.plan is not None), None)
        if sorted(here) != sorted(expected) or plan is None:
            msg = "an epoch came back without exactly one report of each of its tasks"
            raise ExternalFailure(
                msg, code="RUN-010", found=sorted(here), known=sorted(expected), hint="start the job again"
            )
        return plan

    def _note(self, plan: EpochPlan, counts: Counts) -> None:
        now = time.monotonic()
        rows_in = sum(counts.get(source, StepCounts()).rows_in for source in self._sources)
        rows_out = sum(counts.get(sink, StepCounts()).rows_in for sink in self._sinks)
        result = self.result
        result.epochs, result.rows_in, result.rows_out = (
            result.epochs + 1,
            result.rows_in + rows_in,
            result.rows_out + rows_out,
        )
        result.seconds = now - self._began
        result.counts = total([result.counts, counts])
        seconds, self._epoch_began = now - self._epoch_began, now
        if self._listener is not None:
            lags = self.planner.lag
            self._listener(
                EpochSummary(
                    epoch=plan.epoch,
                    rows_in=rows_in,
                    rows_out=rows_out,
                    lag=sum(lags.values()) if lags else None,
                    watermark=min(plan.watermarks.values(), default=MIN_TIME),
                    seconds=seconds,
                    terminal=plan.terminal,
                )
            )

    def close(self) -> None:
        """Release sources and sinks."""
        self.planner.close()
        for sink in self._sinks.values():
            sink.close()


def lineage_of(store: ManifestStore, job: str) -> Lineage:
    """The lineage of a checkpoint, chosen when it is first used."""
    store.create(_LINEAGE, json.dumps({"job": job, "lineage": uuid.uuid4().hex[:16]}).encode())
    content = store.read(_LINEAGE)
    assert content is not None, "the lineage was just created"
    return Lineage(json.loads(content)["lineage"])


def open_sources(deployment: DeploymentPlan, root: Path | None) -> dict[str, SplitEnumerator]:
    """The enumerators of all sources; each has a folder of its own in the checkpoint."""
    opened: dict[str, SplitEnumerator] = {}
    for node in _nodes(deployment):
        if isinstance(node.operation, Source):
            folder = None if root is None else root / node.id
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            context = SourceContext(
                step=node.id, schema=node.operation.schema, log_dir=folder, parallelism=deployment.plan.parallelism
            )
            enumerator = load(source_declaration(node.operation.connector).enumerator)
            opened[node.id] = enumerator(node.operation.connector.options, context)
    return opened


def open_sinks(deployment: DeploymentPlan, lineage: str) -> dict[str, SinkCommitter]:
    """The committers of all sinks, in the order of the graph."""
    opened: dict[str, SinkCommitter] = {}
    for node in _nodes(deployment):
        if isinstance(node.operation, Sink):
            assert node.input_schema is not None
            context = SinkContext(job=deployment.name, lineage=lineage, step=node.id, schema=node.input_schema)
            committer = load(sink_declaration(node.operation.connector).committer)
            opened[node.id] = committer(node.operation.connector.options, context)
    return opened


def _nodes(deployment: DeploymentPlan) -> list[StreamNode]:
    return [node for planned in deployment.plan.vertices for node in planned.vertex.nodes]


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000
