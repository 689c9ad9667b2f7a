"""`Job`: collects steps, checks each one where the user wrote it, and runs them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from millstream.api.functions import DeadLetter, OnErrorLike, policy
from millstream.api.keyed import KeyedStream
from millstream.api.stream import DataStream
from millstream.errors import InvalidStep
from millstream.graph.model import Requirements, StreamModel, duplicate_id
from millstream.graph.serialize import model_from_json, model_to_json
from millstream.graph.step import DEAD, Operation, Sink, Source, Step, StepInput
from millstream.graph.stream_graph import StreamNode, resolve
from millstream.model.connector import ConnectorSpec, checked_options, sink_declaration, source_declaration
from millstream.model.guarantee import guarantee_of
from millstream.model.ids import StepId, job_name, step_id
from millstream.model.schema import SchemaLike, schema_of
from millstream.model.time import DurationLike, duration_ms
from millstream.plan.compile import Layers, compile_job
from millstream.plan.deployment import Deployment
from millstream.plan.explain import explain

_MAX_ID = 100


class Job:
    """A data pipeline.

    Args:
        name: names checkpoints and output of the job.
        guarantee: `exactly_once`, `effectively_once`, `at_least_once` or `best_effort`.
        epoch_interval: how often an epoch is cut while input keeps coming.
        rows_per_epoch: at most about that many rows are admitted into one epoch.
        parallelism: subtasks of every keyed step.
        max_parallelism: number of key groups; fixed for the life of the job's state.
    """

    def __init__(
        self,
        name: str,
        *,
        guarantee: str = "exactly_once",
        epoch_interval: DurationLike = "1s",
        rows_per_epoch: int = 2_000_000,
        parallelism: int = 2,
        max_parallelism: int = 128,
    ) -> None:
        self.name = job_name(name)
        self._requirements = Requirements(
            guarantee=guarantee_of(guarantee),
            epoch_interval=duration_ms(epoch_interval, what="epoch_interval"),
            rows_per_epoch=rows_per_epoch,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
        )
        self._steps: dict[StepId, Step] = {}
        self._nodes: dict[StepId, StreamNode] = {}

    def source(
        self,
        name: str,
        connector: ConnectorSpec,
        *,
        schema: SchemaLike | None = None,
        on_error: OnErrorLike = "fail",
        credit: int | None = None,
    ) -> DataStream:
        """Read rows through a connector.

        Args:
            name: the step's id.
            connector: where the rows come from, such as `ms.files("in/")`.
            schema: the columns; sources that know theirs need none.
            on_error: what happens to records that cannot be decoded.
            credit: at most about that many rows of this source per epoch; otherwise sources share `rows_per_epoch`.
        """
        checked_id = step_id(name)
        connector = _connector(connector, checked_id)
        declared = source_declaration(connector, step=checked_id)
        options = checked_options(declared.options, connector.options, step=checked_id, name=connector.name)
        if schema is None and declared.schema is not None:
            schema = declared.schema(options)
        if schema is None:
            msg = f"source {name!r} needs a schema"
            raise InvalidStep(msg, code="STEP-061", step=name, hint="pass schema='user string, amount double'")
        operation = Source(
            connector=ConnectorSpec(connector.name, options),
            schema=schema_of(schema),
            on_error=policy(on_error, name),
            credit=credit,
        )
        node = self.add(operation, (), given_id=name)
        self.add_dead_letter(node.id, on_error)
        return self.stream(node)

    def stream(self, node: StreamNode) -> DataStream:
        """The main output of a step; used by the streams."""
        return DataStream(self, node)

    def keyed_stream(self, node: StreamNode, output: str, keys: tuple[str, ...]) -> KeyedStream:
        """An output of a step, partitioned; used by the streams."""
        return KeyedStream(self, node, output, keys)

    def add(self, operation: Operation, inputs: Sequence[StepInput], *, given_id: str | None) -> StreamNode:
        """Check a step and append it; used by the streams."""
        identifier = step_id(given_id) if given_id is not None else self._derived_id(operation, inputs)
        if identifier in self._steps:
            raise duplicate_id(identifier)
        step = Step(id=identifier, operation=operation, inputs=tuple(inputs), has_given_id=given_id is not None)
        node = resolve(step, self._nodes)
        self._steps[identifier], self._nodes[identifier] = step, node
        return node

    def add_sink(self, name: str, connector: ConnectorSpec, source: StepInput) -> None:
        """Check a sink and append it; used by the streams."""
        checked_id = step_id(name)
        connector = _connector(connector, checked_id)
        declared = sink_declaration(connector, step=checked_id)
        options = checked_options(declared.options, connector.options, step=checked_id, name=connector.name)
        # A sink may bear the name of the step it writes, as in `totals.sink("totals", ...)`.
        taken = self._steps.get(checked_id)
        unique = f"{name}.sink" if taken is not None and not isinstance(taken.operation, Sink) else name
        self.add(Sink(connector=ConnectorSpec(connector.name, options)), (source,), given_id=unique)

    def add_dead_letter(self, step: StepId, on_error: OnErrorLike) -> None:
        """Connect a step's dead letters to their sink."""
        if isinstance(on_error, DeadLetter):
            self.add_sink(f"{step}.dead", on_error.sink, StepInput(step=step, output=DEAD))

    def _derived_id(self, operation: Operation, inputs: Sequence[StepInput]) -> StepId:
        before = inputs[0].step if inputs else "step"
        label = getattr(operation, "shape", operation.kind)
        wanted = f"{before}.{label}"
        if len(wanted) > _MAX_ID:
            wanted = f"{before.split('.')[0]}.{len(self._steps)}.{label}"
        unique, number = wanted, 2
        while unique in self._steps:
            unique, number = f"{wanted}-{number}", number + 1
        return StepId(unique)

    @property
    def model(self) -> StreamModel:
        """The job as a value."""
        return StreamModel(name=self.name, steps=tuple(self._steps.values()), requirements=self._requirements)

    def compile(self, deployment: Deployment | None = None) -> Layers:
        """Every layer of the plan; problems of the whole graph are reported here."""
        return compile_job(self.model, deployment)

    def explain(self, layer: str = "partitioned") -> str:
        """A layer of the plan as text: `stream`, `job`, `partitioned` or `deployment`."""
        return explain(self.compile(), layer)

    def to_json(self) -> dict[str, Any]:
        """The declarative form."""
        return model_to_json(self.model)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Job:
        """Read the declarative form; the plan equals the one it was written from."""
        return cls.from_model(model_from_json(value))

    @classmethod
    def from_model(cls, model: StreamModel) -> Job:
        """A job that holds the steps of a model."""
        job = cls(model.name)
        job._requirements = model.requirements
        for step in model.steps:
            job._nodes[step.id] = resolve(step, job._nodes)
            job._steps[step.id] = step
        return job

    def run(self, *, local: bool = False, checkpoint: str | Path | None = None, **options: Any) -> Any:
        """Run until the input ends: on Spark, or in this process with `local=True`.

        With a `checkpoint` directory a killed run is resumed by running it again; without one the run starts afresh in
        a temporary directory. Further options: `master`, `state_backend`, `memory`, `confs`.
        """
        deployment = Deployment(checkpoint=None if checkpoint is None else str(checkpoint), **options)
        engine = importlib.import_module("millstream.local.run" if local else "millstream.driver.run")
        return engine.run(self.compile(deployment).deployment)


def _connector(value: object, step: str) -> ConnectorSpec:
    if isinstance(value, ConnectorSpec):
        return value
    msg = "not a connector"
    raise InvalidStep(msg, code="STEP-063", step=step, found=repr(value), hint="pass for example ms.files('in/')")
