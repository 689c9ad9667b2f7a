"""`Job`: collects steps, checks each one where the user wrote it, and runs them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millstream.api.run_options import Confs, RunOptions
from millstream.api.running.job import RunningJob
from millstream.api.running.result import Listener, RunResult
from millstream.api.streams.endpoints import source_operation
from millstream.api.streams.job_steps import JobSteps
from millstream.api.streams.stream import DataStream
from millstream.api.values.error_policy import OnErrorLike
from millstream.graph.model import Carry, OnStop, Requirements, StreamModel
from millstream.graph.operations.aggregate import Emit
from millstream.graph.serialize import model_from_json, model_to_json
from millstream.model.connector import ConnectorSpec, NewerOutput
from millstream.model.flow import FlowControl
from millstream.model.guarantee import guarantee_of
from millstream.model.ids import job_name
from millstream.model.mode import mode_named
from millstream.model.params import declared_params
from millstream.model.schema import SchemaLike
from millstream.model.time import DurationLike, duration_ms
from millstream.plan.compile import Layers, compile_job
from millstream.plan.deployment import Deployment, EpochPolicy, MemoryBudget, StateBackend
from millstream.plan.explain import explain
from millstream.tracebacks import public

_DEFAULTS = RunOptions()


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
        mode: `STREAMING`, `BATCH_ROLLER` or `SQL_TASK`; follows from the sources where it is not said.
        params: what each run is given, by name: a type such as `date`, or `{"type": "int", "default": 10}`.
        carry: what a start begins with when the last run is complete: `nothing`, `position` or `state`; nothing is left to run
            then where it is not said.
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
        mode: str | None = None,
        params: Mapping[str, Any] | None = None,
        carry: Carry | None = None,
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
            mode=None if mode is None else mode_named(mode),
            params=declared_params(params),
            carry=carry,
        )
        self._steps = JobSteps(params=self._requirements.params)

    def source(
        self,
        name: str,
        connector: ConnectorSpec,
        *,
        schema: SchemaLike | None = None,
        on_error: OnErrorLike = "fail",
        credit: int | None = None,
        flow: FlowControl | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Read rows through a connector.

        Args:
            name: the step's id.
            connector: where the rows come from, such as `ms.files("in/")`.
            schema: the columns; sources that know theirs need none.
            on_error: what happens to records that cannot be decoded.
            credit: at most about that many rows of this source per epoch; otherwise sources share `rows_per_epoch`.
            flow: how long epochs may take, and what becomes of rows that come faster than the job works.
            uid: names its position in checkpoints, if the source was called otherwise when they were written.
        """
        operation = source_operation(name, connector, schema=schema, on_error=on_error, credit=credit, flow=flow)
        node = self._steps.add(operation, (), given_id=name, uid=uid)
        self._steps.add_dead_letter(node, on_error)
        return DataStream(self, node)

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
        # Statements bring sqlglot along, which jobs without them need not load.
        from millstream.api.sql.statement import sql_stream

        return sql_stream(self, text, streams, emit=emit, allowed_lateness=allowed_lateness, id=id, uid=uid)

    @property
    def model(self) -> StreamModel:
        """The job as a value."""
        return StreamModel(name=self.name, steps=self._steps.in_order, requirements=self._requirements)

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
        job._steps = JobSteps(model.steps, model.requirements.params)
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
        carry: Carry | None = None,
        run_id: str | None = None,
        epochs: EpochPolicy = _DEFAULTS.epochs,
        master: str = _DEFAULTS.master,
        state_backend: StateBackend = _DEFAULTS.state_backend,
        memory: MemoryBudget = _DEFAULTS.memory,
        confs: Confs = _DEFAULTS.confs,
        params: Mapping[str, Any] | None = None,
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
            carry: what the run begins with if the last one is complete, instead of what the job says.
            run_id: names the run; a start of the same name is a retry, and does nothing once that run is complete.
            epochs: how epochs are cut, kept and given up.
            master: Spark's master.
            state_backend: `rocksdb`, or `memory`, which also keeps pages in the workers between epochs.
            memory: sizes that bound what a task holds at once.
            confs: settings of Spark, as pairs or as a mapping.
            params: values of the job's parameters by name, and `interval_start` and `interval_end`.
            on_stop: what a signal to stop does, instead of what the job says: `cancel`, `suspend` or `drain`.
            on_epoch: called with an `EpochSummary` after each epoch that was published, in the thread that runs the epochs;
                an error of it ends the run with `STEP-265`, behind that epoch.
        """
        options = RunOptions(
            local=local, checkpoint=checkpoint, manifests=manifests, from_savepoint=from_savepoint,
            on_newer_output=on_newer_output, allow_dropped_state=allow_dropped_state, ignore_state_once=ignore_state_once,
            carry=carry, run_id=run_id, epochs=epochs, master=master, state_backend=state_backend, memory=memory, confs=confs,
            params=params, on_stop=on_stop, on_epoch=on_epoch,
        )  # fmt: skip
        return options.engine(self.model)(listener=options.listener())

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
        carry: Carry | None = None,
        run_id: str | None = None,
        epochs: EpochPolicy = _DEFAULTS.epochs,
        master: str = _DEFAULTS.master,
        state_backend: StateBackend = _DEFAULTS.state_backend,
        memory: MemoryBudget = _DEFAULTS.memory,
        confs: Confs = _DEFAULTS.confs,
        params: Mapping[str, Any] | None = None,
        on_stop: OnStop | None = None,
        on_epoch: Listener | None = None,
    ) -> RunningJob:
        """Run in a thread of this process and return at once; the options are those of `run`."""
        options = RunOptions(
            local=local, checkpoint=checkpoint, manifests=manifests, from_savepoint=from_savepoint,
            on_newer_output=on_newer_output, allow_dropped_state=allow_dropped_state, ignore_state_once=ignore_state_once,
            carry=carry, run_id=run_id, epochs=epochs, master=master, state_backend=state_backend, memory=memory, confs=confs,
            params=params, on_stop=on_stop, on_epoch=on_epoch,
        )  # fmt: skip
        return RunningJob(self.name, options.engine(self.model), listener=options.listener())
