"""`Job`: collects steps, checks each one where the user wrote it, and runs them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from millstream.api.running.job import Engine, RunningJob, engine_for, listening
from millstream.api.running.result import Listener, RunResult
from millstream.api.streams.connected import ConnectedStreams
from millstream.api.streams.keyed import KeyedStream
from millstream.api.streams.stream import DataStream
from millstream.api.values.named import DeadLetter, OnErrorLike, policy
from millstream.errors import InvalidStep
from millstream.graph.model import OnStop, Requirements, StreamModel, duplicate_id, duplicate_uid
from millstream.graph.operation import Operation
from millstream.graph.operations.aggregate import Emit
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.resolve import resolve
from millstream.graph.serialize import model_from_json, model_to_json
from millstream.graph.step import DEAD, Step, StepInput, step_uid
from millstream.graph.stream_graph import StreamNode
from millstream.model.connector import (
    ConnectorSpec,
    NewerOutput,
    checked_options,
    sink_declaration,
    source_declaration,
)
from millstream.model.guarantee import guarantee_of
from millstream.model.ids import StepId, job_name, step_id
from millstream.model.schema import SchemaLike, schema_of
from millstream.model.time import DurationLike, duration_ms
from millstream.plan.compile import Layers, compile_job
from millstream.plan.deployment import Deployment, EpochPolicy, MemoryBudget, StateBackend
from millstream.plan.explain import explain
from millstream.plan.option_values import path_or_url
from millstream.tracebacks import public

_MAX_ID = 100
Confs = tuple[tuple[str, str], ...] | Mapping[str, str]
_DEFAULTS = Deployment()


@public
class Job:
    """A data pipeline.

    Args:
        name: names checkpoints and output of the job.
        guarantee: `exactly_once`, `effectively_once`, `at_least_once` or `best_effort`.
        epoch_interval: how often an epoch is cut while input keeps coming.
        rows_per_epoch: at most about that many rows are admitted into one epoch.
        parallelism: subtasks of every keyed step.
        max_parallelism: number of key groups; fixed for the life of the job's state.
        on_stop: what SIGTERM and Ctrl-C do to a run: `cancel` and `suspend` let it be resumed, `drain` completes it.
        chaining: fuse steps between exchanges; without, each is a vertex of its own, whose load is seen apart.
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
        on_stop: OnStop = "cancel",
        chaining: bool = True,
    ) -> None:
        self.name = job_name(name)
        self._requirements = Requirements(
            guarantee=guarantee_of(guarantee),
            epoch_interval=duration_ms(epoch_interval, what="epoch_interval"),
            rows_per_epoch=rows_per_epoch,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            on_stop=on_stop,
            chaining=chaining,
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
        uid: str | None = None,
    ) -> DataStream:
        """Read rows through a connector.

        Args:
            name: the step's id.
            connector: where the rows come from, such as `ms.files("in/")`.
            schema: the columns; sources that know theirs need none.
            on_error: what happens to records that cannot be decoded.
            credit: at most about that many rows of this source per epoch; otherwise sources share `rows_per_epoch`.
            uid: names its position in checkpoints, if the source was called otherwise when they were written.
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
        node = self._add(operation, (), given_id=name, uid=uid)
        self._add_dead_letter(node, on_error)
        return self._stream(node)

    def _stream(self, node: StreamNode) -> DataStream:
        """The main output of a step; used by the streams."""
        return DataStream(self, node)

    def _keyed_stream(self, node: StreamNode, output: str, keys: tuple[str, ...]) -> KeyedStream:
        """An output of a step, partitioned; used by the streams."""
        return KeyedStream(self, node, output, keys)

    def _connected(self, left: StepInput, right: StepInput) -> ConnectedStreams:
        """Two inputs of one function; used by the streams."""
        return ConnectedStreams(self, left, right)

    def sql(
        self,
        text: str,
        /,
        *,
        emit: Emit | None = None,
        allowed_lateness: DurationLike | None = None,
        id: str | None = None,
        uid: str | None = None,
        **streams: DataStream,
    ) -> DataStream:
        """A SELECT over streams by name, as in `job.sql("SELECT ... FROM orders", orders=orders)`.

        Args:
            text: one statement in Spark's dialect; it becomes ordinary steps.
            emit: when running aggregates, DISTINCT and rankings say their rows: `epoch`, `row` or `end`.
            allowed_lateness: how long windows stay after their end to take late rows.
            id: names the state; steps beside it are called `<id>.where`, `<id>.select`, ...
            uid: names the state, if the statement was called otherwise when it was written.
            streams: what FROM and JOIN name.
        """
        from millstream.api.sql.build import sql_stream

        return sql_stream(self, text, streams, emit=emit, allowed_lateness=allowed_lateness, id=id, uid=uid)

    def _node(self, step: StepId) -> StreamNode:
        """A step with everything known about it."""
        return self._nodes[step]

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Steps that belong together: if one of them is refused, none stays."""
        steps, nodes = dict(self._steps), dict(self._nodes)
        try:
            yield
        except BaseException:
            self._steps, self._nodes = steps, nodes
            raise

    def _free_id(self, wanted: str) -> str:
        """An id that no step bears, nor stands before a dot in one."""
        taken = {name for step in self._steps.values() for name in (step.id, step.uid)}
        unique, number = wanted, 2
        while any(name == unique or name.startswith(f"{unique}.") for name in taken):
            unique, number = f"{wanted}-{number}", number + 1
        return unique

    def _add(
        self,
        operation: Operation,
        inputs: Sequence[StepInput],
        *,
        given_id: str | None,
        uid: str | None = None,
        is_derived: bool = False,
    ) -> StreamNode:
        """Check a step and append it; used by the streams. `is_derived` says that nobody chose the id that is given."""
        identifier = step_id(given_id) if given_id is not None else self._derived_id(operation, inputs)
        if identifier in self._steps:
            raise duplicate_id(identifier)
        owners = {step.uid: step.id for step in self._steps.values()}
        if uid is not None:
            own = step_uid(uid, identifier)
        elif given_id is not None or not inputs:
            own = identifier
        else:
            # Derived from the uids before it, so that renaming an input with uid= renames nothing behind it.
            own = self._derived(operation, self._steps[inputs[0].step].uid, owners)
        if own in owners:
            raise duplicate_uid(identifier, own, owners[own])
        step = Step(
            id=identifier,
            operation=operation,
            inputs=tuple(inputs),
            has_given_id=given_id is not None and not is_derived,
            given_uid=None if own == identifier else own,
        )
        node = resolve(step, self._nodes)
        self._steps[identifier], self._nodes[identifier] = step, node
        return node

    def _start_chain(self, step: StepId) -> StreamNode:
        """Part a step from the one before it; used by the streams."""
        self._steps[step] = dataclasses.replace(self._steps[step], starts_chain=True)
        node = self._nodes[step] = dataclasses.replace(self._nodes[step], starts_chain=True)
        return node

    def _add_sink(self, name: str, connector: ConnectorSpec, source: StepInput, *, uid: str | None = None) -> None:
        """Check a sink and append it; used by the streams."""
        checked_id = step_id(name)
        connector = _connector(connector, checked_id)
        declared = sink_declaration(connector, step=checked_id)
        options = checked_options(declared.options, connector.options, step=checked_id, name=connector.name)
        # A sink may bear the name of the step it writes, as in `totals.sink("totals", ...)`.
        taken = self._steps.get(checked_id)
        unique = f"{name}.sink" if taken is not None and not isinstance(taken.operation, Sink) else name
        self._add(Sink(connector=ConnectorSpec(connector.name, options)), (source,), given_id=unique, uid=uid)

    def _add_dead_letter(self, node: StreamNode, on_error: OnErrorLike) -> None:
        """Connect a step's dead letters to their sink."""
        if isinstance(on_error, DeadLetter):
            uid = None if node.uid == node.id else f"{node.uid}.dead"
            self._add_sink(f"{node.id}.dead", on_error.sink, StepInput(step=node.id, output=DEAD), uid=uid)

    def _derived_id(self, operation: Operation, inputs: Sequence[StepInput]) -> StepId:
        return self._derived(operation, inputs[0].step if inputs else "step", self._steps)

    def _derived(self, operation: Operation, before: str, taken: Container[StepId]) -> StepId:
        label = getattr(operation, "shape", operation.kind)
        wanted = f"{before}.{label}"
        if len(wanted) > _MAX_ID:
            wanted = f"{before.split('.', maxsplit=1)[0]}.{len(self._steps)}.{label}"
        unique, number = StepId(wanted), 2
        while unique in taken:
            unique, number = StepId(f"{wanted}-{number}"), number + 1
        return unique

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
        return cls._from_model(model_from_json(value))

    @classmethod
    def _from_model(cls, model: StreamModel) -> Job:
        """A job that holds the steps of a model."""
        job = cls(model.name)
        job._requirements = model.requirements
        for step in model.steps:
            job._nodes[step.id] = resolve(step, job._nodes)
            job._steps[step.id] = step
        return job

    def run(
        self,
        *,
        local: bool = False,
        checkpoint: str | Path | None = None,
        manifests: str | None = None,
        from_savepoint: str | Path | None = None,
        on_newer_output: NewerOutput = "refuse",
        allow_dropped_state: bool = False,
        ignore_state_once: bool = False,
        epochs: EpochPolicy = _DEFAULTS.epochs,
        master: str = _DEFAULTS.master,
        state_backend: StateBackend = _DEFAULTS.state_backend,
        memory: MemoryBudget = _DEFAULTS.memory,
        confs: Confs = _DEFAULTS.confs,
        on_stop: OnStop | None = None,
        on_epoch: Listener | None = None,
    ) -> RunResult:
        """Run until the input ends: on Spark, or in this process with `local=True`.

        With a `checkpoint` directory a killed run is resumed by running it again; without one the run starts afresh in
        a temporary directory.

        In the main thread, SIGTERM and Ctrl-C end the run as `on_stop` says, unless the program handles them itself. A run that
        they cancelled raises `KeyboardInterrupt` or `SystemExit(143)` once it has ended.

        Args:
            local: run in this process, without Spark.
            checkpoint: keep state here.
            manifests: another store for manifests, head and lease: `s3://…`, `postgresql://…` or `sqlite:///…`.
            from_savepoint: the directory of a savepoint to go on from; a checkpoint that did already is resumed.
            on_newer_output: what becomes of output beyond the savepoint: `refuse`, `keep` or `truncate`.
            allow_dropped_state: accept that no step takes some state of the savepoint.
            ignore_state_once: give the checkpoint's state up and start over; has an effect once.
            epochs: how epochs are cut, kept and given up.
            master: Spark's master.
            state_backend: `rocksdb`, or `memory`, which also keeps pages in the workers between epochs.
            memory: sizes that bound what a task holds at once.
            confs: settings of Spark, as pairs or as a mapping.
            on_stop: what a signal to stop does, instead of what the job says: `cancel`, `suspend` or `drain`.
            on_epoch: called with an `EpochSummary` after each epoch that was published, in the thread that runs the epochs;
                an error of it ends the run with `STEP-265`, behind that epoch.
        """
        engine = self._engine(
            checkpoint,
            {"manifests": manifests, "epochs": epochs, "master": master}
            | {"state_backend": state_backend, "memory": memory, "confs": confs, "on_stop": on_stop},
            local=local,
            from_savepoint=from_savepoint,
            on_newer_output=on_newer_output,
            allow_dropped_state=allow_dropped_state,
            ignore_state_once=ignore_state_once,
        )
        return engine(listener=listening(on_epoch))

    def start(
        self,
        *,
        local: bool = False,
        checkpoint: str | Path | None = None,
        manifests: str | None = None,
        from_savepoint: str | Path | None = None,
        on_newer_output: NewerOutput = "refuse",
        allow_dropped_state: bool = False,
        ignore_state_once: bool = False,
        epochs: EpochPolicy = _DEFAULTS.epochs,
        master: str = _DEFAULTS.master,
        state_backend: StateBackend = _DEFAULTS.state_backend,
        memory: MemoryBudget = _DEFAULTS.memory,
        confs: Confs = _DEFAULTS.confs,
        on_stop: OnStop | None = None,
        on_epoch: Listener | None = None,
    ) -> RunningJob:
        """Run in a thread of this process and return at once; the options are those of `run`."""
        engine = self._engine(
            checkpoint,
            {"manifests": manifests, "epochs": epochs, "master": master}
            | {"state_backend": state_backend, "memory": memory, "confs": confs, "on_stop": on_stop},
            local=local,
            from_savepoint=from_savepoint,
            on_newer_output=on_newer_output,
            allow_dropped_state=allow_dropped_state,
            ignore_state_once=ignore_state_once,
        )
        return RunningJob(self.name, engine, listener=listening(on_epoch))

    def _engine(self, checkpoint: str | Path | None, chosen: dict[str, Any], **past: Any) -> Engine:
        deployment = Deployment(checkpoint=path_or_url("checkpoint", checkpoint), **chosen)
        return engine_for(self.compile(deployment).deployment, **past)


def _connector(value: object, step: str) -> ConnectorSpec:
    if isinstance(value, ConnectorSpec):
        return value
    msg = "not a connector"
    raise InvalidStep(msg, code="STEP-063", step=step, found=repr(value), hint="pass for example ms.files('in/')")
