"""`run_job`: a job with scripted input and collected output, on either engine."""

from __future__ import annotations

import dataclasses
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from millstream import registry
from millstream.api.functions.user_metrics import UserMetrics
from millstream.api.job import Job
from millstream.api.running.result import EpochSummary, RunResult
from millstream.connectors.collect.sink import clear, collected
from millstream.connectors.collect.spec import collect
from millstream.connectors.memory.spec import MARK, memory
from millstream.errors import InvalidStep, MillstreamError
from millstream.graph.model import Requirements, StreamModel
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.step import Step
from millstream.model.connector import ConnectorSpec, checked_options, source_declaration
from millstream.model.counts import Counts
from millstream.model.ids import StepId
from millstream.plan.compile import compile_job
from millstream.plan.deployment import Deployment, DeploymentPlan, EpochPolicy, MemoryBudget, StateBackend
from millstream.tracebacks import public

Engine = Literal["local", "spark"]
Row = dict[str, Any]
Script = Sequence[Mapping[str, Any]] | ConnectorSpec
"""Rows and marks in the order they are read, or another connector such as `ms.memory(rows, partition_by="shard")`."""

_ABORTED = "TEST-ABORT"
_DEFAULTS = Deployment()


@public
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobOutput:
    """What a run gave: rows by sink, and numbers about the run."""

    sinks: Mapping[str, list[Row]]
    epochs: tuple[EpochSummary, ...]
    """The published epochs, in order."""
    counts: Counts
    """What became of each step's rows, since the last restart."""
    restarts: int
    """How often an `ABORT` mark ended a run that was then started again."""
    metrics: UserMetrics = dataclasses.field(default_factory=dict)
    """What functions of the job counted, by step, since the last restart."""

    def rows(self, sink: str) -> list[Row]:
        """The rows a sink got, in the order they were published."""
        # A sink that bears the name of the step it writes has an id of its own.
        if f"{sink}.sink" in self.sinks and sink not in self.sinks:
            sink = f"{sink}.sink"
        if sink not in self.sinks:
            msg = f"the job has no sink {sink!r}"
            raise InvalidStep(msg, code="TEST-003", known=self.sinks, hint="name one of its sinks")
        return self.sinks[sink]

    def __getitem__(self, sink: str) -> list[Row]:
        return self.rows(sink)


def standing_clock() -> int:
    """The clock of a test: it stands at 1970 until an `ADVANCE_CLOCK` mark moves it."""
    return 0


@public
def run_job(
    job: Job,
    inputs: Mapping[str, Script] | None = None,
    *,
    engine: Engine = "local",
    parallelism: int | None = None,
    rows_per_epoch: int | None = None,
    checkpoint: str | Path | None = None,
    clock: Callable[[], int] = standing_clock,
    manifests: str | None = None,
    epochs: EpochPolicy = _DEFAULTS.epochs,
    master: str = _DEFAULTS.master,
    state_backend: StateBackend = _DEFAULTS.state_backend,
    memory: MemoryBudget = _DEFAULTS.memory,
    confs: tuple[tuple[str, str], ...] = _DEFAULTS.confs,
    params: Mapping[str, Any] | None = None,
) -> JobOutput:
    """Run a job to its end with other sources and with collected output; the job itself is left as it is.

    An `ABORT` mark in the input fails the run once; it is then started again from its checkpoint, so the output shows
    whether anything was lost or doubled.

    Args:
        job: the job under test.
        inputs: source name → script. Sources that are not named keep their connector.
        engine: `local` runs in this process; `spark` runs the same plan on Spark.
        parallelism: subtasks of every keyed step.
        rows_per_epoch: at most that many rows of each source in one epoch.
        checkpoint: a directory to resume from and leave behind; output then includes that of earlier runs in it.
        clock: milliseconds since 1970; without it time stands still unless a mark advances it.
        manifests: another store for manifests, head and lease, as for `Job.run`.
        epochs: how epochs are cut, kept and given up.
        master: Spark's master.
        state_backend: `rocksdb` or `memory`.
        memory: sizes that bound what a task holds at once.
        confs: settings of Spark, as pairs.
        params: the parameters of the run, as for `Job.run`.
    """
    module = _engine(engine)
    label = uuid.uuid4().hex if checkpoint is None else str(Path(checkpoint).resolve())
    model = scripted(job.model, inputs or {}, label, parallelism=parallelism, rows_per_epoch=rows_per_epoch)
    aborts = _aborts(model)
    with tempfile.TemporaryDirectory(prefix="millstream-test-") as temporary:
        folder = checkpoint if checkpoint is not None else temporary if aborts or engine == "spark" else None
        deployment = Deployment(
            checkpoint=None if folder is None else str(folder),
            manifests=manifests,
            epochs=epochs,
            master=master,
            state_backend=state_backend,
            memory=memory,
            confs=confs,
            params=params or {},
        )
        plan = compile_job(model, deployment).deployment
        published: list[EpochSummary] = []
        result, restarts = _run_to_end(module, plan, clock, published, aborts)
    sinks = _output(model, label, is_kept=checkpoint is not None)
    return JobOutput(
        sinks=sinks, epochs=tuple(published), counts=result.counts, restarts=restarts, metrics=result.metrics
    )


def scripted(
    model: StreamModel,
    inputs: Mapping[str, Script],
    label: str,
    *,
    parallelism: int | None = None,
    rows_per_epoch: int | None = None,
) -> StreamModel:
    """The model with scripted sources, and with sinks that collect under the label."""
    sources = [step.id for step in model.steps if isinstance(step.operation, Source)]
    for name in inputs:
        if name not in sources:
            msg = f"the job has no source {name!r}"
            raise InvalidStep(msg, code="TEST-001", known=sources, hint="name one of its sources in inputs=")
    steps = tuple(_replaced(step, inputs, label) for step in model.steps)
    needs = _requirements(model.requirements, len(sources), parallelism, rows_per_epoch)
    return dataclasses.replace(model, steps=steps, requirements=needs)


def _requirements(needs: Requirements, sources: int, parallelism: int | None, rows: int | None) -> Requirements:
    # A job shares the rows of an epoch among its sources; a test says how many each may give.
    shared = needs.rows_per_epoch if rows is None else rows * max(1, sources)
    # Scripts are read as they come, whatever the sources of the job are.
    return dataclasses.replace(needs, parallelism=parallelism or needs.parallelism, rows_per_epoch=shared, mode=None)


def _replaced(step: Step, inputs: Mapping[str, Script], label: str) -> Step:
    if isinstance(step.operation, Sink):
        return dataclasses.replace(step, operation=Sink(connector=collect(_collect_name(label, step.id))))
    if isinstance(step.operation, Source) and step.id in inputs:
        connector = _script(step.id, inputs[step.id])
        return dataclasses.replace(step, operation=dataclasses.replace(step.operation, connector=connector))
    return step


def _script(step: StepId, script: Script) -> ConnectorSpec:
    spec = script if isinstance(script, ConnectorSpec) else memory(script)
    declared = source_declaration(spec, step=step)
    options = checked_options(declared.options, spec.options, step=step, name=spec.name)
    if spec.name == "memory":
        # An abort mark fails once in a process; a script that is run again fails again.
        rows = [{**row, "id": uuid.uuid4().hex} if row.get(MARK) == "abort" else row for row in options["rows"]]
        options = {**options, "rows": rows}
    return ConnectorSpec(spec.name, options)


def _collect_name(label: str, sink: str) -> str:
    return f"test/{label}/{sink}"


def _output(model: StreamModel, label: str, *, is_kept: bool) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for step in model.steps:
        if isinstance(step.operation, Sink):
            name = _collect_name(label, step.id)
            rows[step.id] = collected(name)
            if not is_kept:
                clear(name)
    return rows


def _aborts(model: StreamModel) -> int:
    """How many abort marks the sources hold: the run fails at most once for each."""
    scripts = [step.operation.connector for step in model.steps if isinstance(step.operation, Source)]
    return sum(row.get(MARK) == "abort" for spec in scripts if spec.name == "memory" for row in spec.options["rows"])


def _engine(name: str) -> Any:
    """The engine of that name; a local test never loads Spark."""
    try:
        return registry.find("engines", name)
    except KeyError:
        known = registry.names("engines")
        msg = "unknown engine"
        raise InvalidStep(msg, code="TEST-004", found=repr(name), known=known, hint="pass engine='local'") from None


def _run_to_end(
    engine: Any, plan: DeploymentPlan, clock: Callable[[], int], epochs: list[EpochSummary], aborts: int
) -> tuple[RunResult, int]:
    for restarts in range(aborts + 1):
        try:
            return engine.run(plan, clock=clock, listener=epochs.append), restarts
        except MillstreamError as problem:
            if problem.code != _ABORTED or restarts == aborts:
                raise
    msg = "every abort mark fails a run at most once"
    raise AssertionError(msg)
