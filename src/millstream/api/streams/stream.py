"""Streams: every method adds one step and returns the stream behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from millstream.api.functions.broadcast import BroadcastStream
from millstream.api.streams.enrich import TableLike, async_operation, lookup_operation
from millstream.api.streams.signatures import output_schema
from millstream.api.values.named import OnErrorLike, policy
from millstream.api.values.watermark import WatermarkLike, event_time_operation
from millstream.errors import InvalidStep
from millstream.graph.function import function_ref
from millstream.graph.operation import Operation
from millstream.graph.operations.aggregate import Emit
from millstream.graph.operations.rows import Filter, MapBatches, PythonMap, Select, Union, WithColumns
from millstream.graph.resolve import check_keys
from millstream.graph.step import DEAD, LATE, MAIN, StepInput
from millstream.graph.stream_graph import StreamNode
from millstream.model.connector import ConnectorSpec
from millstream.model.schema import Schema, SchemaLike, schema_of
from millstream.model.time import DurationLike
from millstream.tracebacks import public

if TYPE_CHECKING:
    from millstream.api.job import Job
    from millstream.api.streams.connected import ConnectedStreams
    from millstream.api.streams.keyed import KeyedStream
    from millstream.api.values.pattern import Pattern, PatternStream
    from millstream.graph.operations.rules import OnUpdate


@public
class DataStream:
    """Rows with a schema, on their way from one step to the next."""

    def __init__(self, job: Job, node: StreamNode, output: str = MAIN, *, is_rebalanced: bool = False) -> None:
        self._job = job
        self._node = node
        self._output = output
        self._is_rebalanced = is_rebalanced

    @property
    def schema(self) -> Schema:
        """The columns of this stream."""
        return self._node.outputs[self._output]

    @property
    def step(self) -> str:
        """The id of the step that makes this stream."""
        return self._node.id

    def event_time(
        self,
        column: str,
        *,
        max_delay: DurationLike = 0,
        watermark: WatermarkLike | None = None,
        interval: DurationLike | None = None,
        idle_after: DurationLike | None = None,
        align: str | None = None,
        max_drift: DurationLike | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Say when rows happened.

        Args:
            column: a timestamp, or a long holding milliseconds since 1970, within the years 2 to 9998.
            max_delay: how far a row may lie behind the newest one of its partition without being late.
            watermark: another strategy than a bounded delay, such as `ms.watermark.punctuated("kind = 'end'")`.
            interval: the watermark moves at most once in that time.
            idle_after: a partition without rows for that long no longer holds the watermark back.
            align: the group whose sources wait for each other.
            max_drift: how far the sources here may run ahead of the slowest one of the group.
            on_error: what becomes of a row whose time is null or out of range.
            id: a name for the step.
            uid: names its watermark in checkpoints, if the step was called otherwise when they were written.
        """
        durations = {"interval": interval, "idle_after": idle_after, "max_drift": max_drift}
        chosen = policy(on_error, id or f"{self.step}.event_time")
        operation = event_time_operation(column, max_delay, watermark, durations, align=align, on_error=chosen, step=id)
        stream = self._then(operation, id, uid)
        self._job._add_dead_letter(stream._node, on_error)
        return stream

    def filter(
        self, where: str | Callable[[dict[str, Any]], object], *, on_error: OnErrorLike = "fail", id: str | None = None
    ) -> DataStream:
        """Keep rows for which an expression, or a Python function, is true."""
        if isinstance(where, str):
            if on_error != "fail":
                msg = "on_error of a filter needs a Python function; an expression that fails stops the job"
                raise InvalidStep(msg, code="STEP-068", step=id, found=where, hint="use TRY_CAST, or pass a function")
            return self._then(Filter(where=where), id)
        return self._python("filter_rows", where, None, on_error, id)

    def select(self, *columns: str | Mapping[str, str], id: str | None = None, **named: str) -> DataStream:
        """Exactly these columns: names, `name="expression"`, or mappings of name to expression (for a column called `id`)."""
        pairs: list[tuple[str, str]] = []
        for column in columns:
            pairs += column.items() if isinstance(column, Mapping) else [(column, f"`{column}`")]
        return self._then(Select(columns=self._some([*pairs, *named.items()], "select", id)), id)

    def with_columns(
        self, columns: Mapping[str, str] | None = None, /, *, id: str | None = None, **named: str
    ) -> DataStream:
        """All columns, with `name="expression"` added or replaced; a mapping may hold a column called `id`."""
        pairs = [*(columns or {}).items(), *named.items()]
        return self._then(WithColumns(columns=self._some(pairs, "with_columns", id)), id)

    def _some(self, pairs: list[tuple[str, str]], method: str, given_id: str | None) -> tuple[tuple[str, str], ...]:
        if given_id in self.schema:
            msg = f"id= names the step, and {given_id!r} is a column"
            hint = f"for a column called id write {method}({{'id': {given_id!r}}}), else give the step another id"
            raise InvalidStep(msg, code="STEP-075", step=self.step, hint=hint)
        if not pairs:
            msg = f"{method} needs at least one column"
            raise InvalidStep(msg, code="STEP-067", step=self.step, hint=f"{method}(total='price * quantity')")
        for name, text in pairs:
            if not isinstance(text, str):
                msg = f"column {name!r} is not an expression"
                raise InvalidStep(
                    msg, code="STEP-067", step=self.step, found=repr(text), hint="write the expression as text"
                )
        return tuple(pairs)

    def map(
        self,
        function: Callable[[dict[str, Any]], Any] | str,
        *,
        schema: SchemaLike | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
    ) -> DataStream:
        """One row out for each row in, by a Python function; fused with the Python steps next to it."""
        return self._python("map", function, schema, on_error, id)

    def flat_map(
        self,
        function: Callable[[dict[str, Any]], Any] | str,
        *,
        schema: SchemaLike | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
    ) -> DataStream:
        """Any number of rows out for each row in."""
        return self._python("flat_map", function, schema, on_error, id)

    def map_batches(
        self, function: Callable[[Any], Any] | str, *, schema: SchemaLike | None = None, id: str | None = None
    ) -> DataStream:
        """A function from Arrow RecordBatch to RecordBatch, row for row: the output has as many rows as the input."""
        target = schema_of(schema) if schema is not None else self.schema
        return self._then(MapBatches(function=function_ref(function, step=id), schema=target), id)

    def lookup(
        self,
        table: TableLike,
        *,
        on: Mapping[str, str],
        how: Literal["inner", "left"] = "inner",
        schema: SchemaLike | None = None,
        format: str | None = None,
        prefix: str | None = None,
        refresh: DurationLike | None = None,
        id: str | None = None,
    ) -> DataStream:
        """Join each row with the rows of a table that have its values; null finds nothing. Keeps no state.

        Args:
            table: a list of rows or an Arrow table, which become part of the job; or the path of a file or folder.
            on: column of the stream → column of the table, of the same type.
            how: `left` also gives rows for which the table has nothing.
            schema: the columns of the table; needed for csv and json.
            format: `parquet`, `csv` or `json` (one object per line); by default from the names of the files.
            prefix: stands before the names of table columns that the stream has too.
            refresh: the path is a folder of snapshots, each file the whole table: an epoch uses the newest one that was
                written by the last full interval of its clock. Files may be added, not changed. By default the table is
                read once.
            id: a name for the step.
        """
        operation = lookup_operation(
            table,
            on,
            how=how,
            schema=schema,
            format=format,
            prefix=prefix,
            refresh=refresh,
            step=id or f"{self.step}.lookup",
        )
        return self._then(operation, id)

    def async_map(
        self,
        function: Callable[[dict[str, Any]], Any] | str,
        *,
        schema: SchemaLike | None = None,
        concurrency: int = 100,
        timeout: DurationLike | None = None,
        retries: int = 0,
        backoff: DurationLike = "100ms",
        ordered: bool = True,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
    ) -> DataStream:
        """One row out for each row in, by a coroutine function that may wait for something outside.

        Args:
            function: `async def` with one row as argument; returns a row.
            schema: the columns of what it returns, if not annotated.
            concurrency: how many rows of a task wait at a time.
            timeout: how long one attempt may take.
            retries: how often a failed or timed-out row is tried again.
            backoff: the pause before the first retry; it doubles with each.
            ordered: whether rows keep their order; otherwise they leave as their answers come.
            on_error: what becomes of a row whose last attempt failed.
            id: a name for the step.
        """
        operation = async_operation(
            function,
            schema=schema,
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
            backoff=backoff,
            ordered=ordered,
            on_error=on_error,
            step=id or f"{self.step}.async_map",
        )
        stream = self._then(operation, id)
        self._job._add_dead_letter(stream._node, on_error)
        return stream

    def union(self, *others: DataStream, id: str | None = None) -> DataStream:
        """The rows of several streams with one schema."""
        for other in others:
            if not isinstance(other, DataStream) or other._job is not self._job:
                msg = "union takes streams of the same job"
                raise InvalidStep(
                    msg, code="STEP-064", step=id, found=repr(other), hint="build both streams on one Job"
                )
        inputs = [stream._as_input() for stream in (self, *others)]
        return self._job._stream(self._job._add(Union(), inputs, given_id=id))

    def sql(
        self,
        text: str,
        *,
        emit: Emit | None = None,
        allowed_lateness: DurationLike | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """A SELECT over this stream, which is called `stream`; the options are those of `Job.sql`."""
        return self._job.sql(text, stream=self, emit=emit, allowed_lateness=allowed_lateness, id=id, uid=uid)

    def rebalance(self) -> DataStream:
        """Spread the rows evenly over all subtasks before the next step."""
        return DataStream(self._job, self._node, self._output, is_rebalanced=True)

    def key_by(self, *columns: str) -> KeyedStream:
        """Partition by columns: rows with equal values meet in one subtask, in order."""
        if self._is_rebalanced:
            msg = "rebalance right before key_by has no effect: key_by decides where rows go"
            raise InvalidStep(msg, code="STEP-069", step=self.step, hint="remove one of them")
        if not columns:
            msg = "key_by needs a column"
            raise InvalidStep(msg, code="STEP-065", step=self.step, known=self.schema.names, hint="key_by('column')")
        check_keys(columns, self.schema, self.step)
        return self._job._keyed_stream(self._node, self._output, columns)

    def pattern(self, pattern: Pattern, *, order_by: str | Sequence[str] = ()) -> PatternStream:
        """Look for a pattern in all rows, as `KeyedStream.pattern` does in those of each key; one subtask takes them all."""
        return self._single().pattern(pattern, order_by=order_by)

    def patterns(
        self,
        updates: BroadcastStream,
        *,
        on_update: OnUpdate = "restart",
        order_by: str | Sequence[str] = (),
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Look for all patterns that a broadcast stream brings in all rows; one subtask takes them all."""
        return self._single().patterns(updates, on_update=on_update, order_by=order_by, id=id, uid=uid)

    def _single(self) -> KeyedStream:
        """All rows as those of one key."""
        if self._is_rebalanced:
            msg = "rebalance right before a pattern without key_by has no effect: one subtask takes all rows"
            raise InvalidStep(msg, code="STEP-069", step=self.step, hint="remove rebalance, or call key_by")
        return self._job._keyed_stream(self._node, self._output, ())

    def broadcast(self) -> BroadcastStream:
        """Send every row to every subtask; connect another stream to it."""
        if self._is_rebalanced:
            msg = "rebalance right before broadcast has no effect: every subtask gets every row"
            raise InvalidStep(msg, code="STEP-069", step=self.step, hint="remove rebalance")
        return BroadcastStream(self._job, self._as_input())

    def connect(self, other: BroadcastStream) -> ConnectedStreams:
        """Bring this stream together with a broadcast one; for two keyed streams call `key_by` on both."""
        if not isinstance(other, BroadcastStream) or other._job is not self._job:
            msg = "connect of a stream without keys takes a broadcast stream of the same job"
            raise InvalidStep(
                msg, code="STEP-077", step=self.step, found=repr(other), hint="call .broadcast() on the other stream"
            )
        return self._job._connected(self._as_input(), other._as_input())

    def side_output(self, name: str) -> DataStream:
        """Another output of the step: one declared with `outputs=`, `late`, or `dead`."""
        if name not in self._node.outputs or name == MAIN:
            known = [tag for tag in self._node.outputs if tag != MAIN]
            msg = f"no side output {name!r}"
            raise InvalidStep(msg, code="STEP-066", step=self.step, known=known, hint="declare it with outputs=")
        return DataStream(self._job, self._node, name)

    @property
    def late(self) -> DataStream:
        """Rows that came after their window was gone."""
        return self.side_output(LATE)

    @property
    def dead(self) -> DataStream:
        """Dead letters of the step."""
        return self.side_output(DEAD)

    def start_new_chain(self) -> DataStream:
        """Start a chain with the step that makes this stream, so that its load is seen apart from that of the steps before it.

        Rows, state and fingerprints stay as they are. Sources and keyed steps start a chain anyway.
        """
        self._node = self._job._start_chain(self._node.id)
        return self

    def sink(self, name: str, connector: ConnectorSpec, *, uid: str | None = None) -> None:
        """Write the rows through a connector; `uid` names its epochs, if the sink was called otherwise before."""
        self._job._add_sink(name, connector, self._as_input(), uid=uid)

    def _as_input(self) -> StepInput:
        """This stream as the input of a step."""
        return StepInput(
            step=self._node.id, output=self._output, partition="rebalance" if self._is_rebalanced else "forward"
        )

    def _then(self, operation: Operation, given_id: str | None, uid: str | None = None) -> DataStream:
        return self._job._stream(self._job._add(operation, (self._as_input(),), given_id=given_id, uid=uid))

    def _python(
        self,
        shape: Literal["map", "flat_map", "filter_rows"],
        function: Any,
        schema: SchemaLike | None,
        on_error: OnErrorLike,
        given_id: str | None,
    ) -> DataStream:
        label = given_id or f"{self.step}.{shape}"
        reference = function_ref(function, step=label)
        target = None
        if shape != "filter_rows":
            target = output_schema(reference.target, schema, step=label, many=shape == "flat_map")
        operation = PythonMap(shape=shape, function=reference, schema=target, on_error=policy(on_error, label))
        stream = self._then(operation, given_id)
        self._job._add_dead_letter(stream._node, on_error)
        return stream
