"""Streams: every method adds one step and returns the stream behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from millstream.api.streams.broadcast import BroadcastStream
from millstream.api.streams.changes import ChangesOfRows
from millstream.api.streams.connected import ConnectedStreams
from millstream.api.streams.enrich import TableLike, async_operation, lookup_operation
from millstream.api.streams.keyed import KeyedStream
from millstream.api.streams.matched import PatternStream
from millstream.api.streams.output import StepOutput, union_inputs
from millstream.api.streams.row_operations import (
    added_columns,
    batch_operation,
    filter_operation,
    python_operation,
    selected_columns,
)
from millstream.api.values.error_policy import OnErrorLike, policy
from millstream.api.values.pattern import Pattern
from millstream.api.values.watermark import WatermarkLike, event_time_operation
from millstream.errors import InvalidStep
from millstream.graph.operation import Operation
from millstream.graph.operations.aggregate import Emit
from millstream.graph.operations.rows import Union
from millstream.graph.operations.rules import OnUpdate
from millstream.graph.resolve import check_keys
from millstream.graph.step import DEAD, LATE, StepInput
from millstream.model.connector import ConnectorSpec
from millstream.model.schema import SchemaLike
from millstream.model.time import DurationLike
from millstream.tracebacks import public


@public
class DataStream(StepOutput, ChangesOfRows):
    """Rows with a schema, on their way from one step to the next."""

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
        return self._then(operation, id, uid, on_error=on_error)

    def filter(
        self, where: str | Callable[[dict[str, Any]], object], *, on_error: OnErrorLike = "fail", id: str | None = None
    ) -> DataStream:
        """Keep rows for which an expression, or a Python function, is true."""
        return self._then(filter_operation(self, where, on_error, id), id, on_error=on_error)

    def select(self, *columns: str | Mapping[str, str], id: str | None = None, **named: str) -> DataStream:
        """Exactly these columns: names, `name="expression"`, or mappings of name to expression (for a column called `id`)."""
        return self._then(selected_columns(self, columns, named, id), id)

    def with_columns(
        self, columns: Mapping[str, str] | None = None, /, *, id: str | None = None, **named: str
    ) -> DataStream:
        """All columns, with `name="expression"` added or replaced; a mapping may hold a column called `id`."""
        return self._then(added_columns(self, columns or {}, named, id), id)

    def map(
        self,
        function: Callable[[dict[str, Any]], Any] | str,
        *,
        schema: SchemaLike | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
    ) -> DataStream:
        """One row out for each row in, by a Python function; fused with the Python steps next to it."""
        return self._then(python_operation(self, "map", function, schema, on_error, id), id, on_error=on_error)

    def flat_map(
        self,
        function: Callable[[dict[str, Any]], Any] | str,
        *,
        schema: SchemaLike | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
    ) -> DataStream:
        """Any number of rows out for each row in."""
        return self._then(python_operation(self, "flat_map", function, schema, on_error, id), id, on_error=on_error)

    def map_batches(
        self, function: Callable[[Any], Any] | str, *, schema: SchemaLike | None = None, id: str | None = None
    ) -> DataStream:
        """A function from Arrow RecordBatch to RecordBatch, row for row: the output has as many rows as the input."""
        return self._then(batch_operation(self, function, schema, id), id)

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
        step = id or f"{self.step}.lookup"
        operation = lookup_operation(
            table, on, how=how, schema=schema, format=format, prefix=prefix, refresh=refresh, step=step
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
        return self._then(operation, id, on_error=on_error)

    def union(self, *others: DataStream, id: str | None = None) -> DataStream:
        """The rows of several streams with one schema."""
        return self._behind(Union(), union_inputs((self, *others), id), id)

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
        made: DataStream = self._job.sql(
            text, stream=self, emit=emit, allowed_lateness=allowed_lateness, id=id, uid=uid
        )
        return made

    def rebalance(self) -> DataStream:
        """Spread the rows evenly over all subtasks before the next step."""
        return DataStream(self._job, self._node, self._output, is_rebalanced=True)

    def key_by(self, *columns: str) -> KeyedStream:
        """Partition by columns: rows with equal values meet in one subtask, in order."""
        self._refuse_rebalanced("key_by", "key_by decides where rows go", "remove one of them")
        if not columns:
            msg = "key_by needs a column"
            raise InvalidStep(msg, code="STEP-065", step=self.step, known=self.schema.names, hint="key_by('column')")
        check_keys(columns, self.schema, self.step)
        return KeyedStream(self, columns)

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
        reason, hint = "one subtask takes all rows", "remove rebalance, or call key_by"
        self._refuse_rebalanced("a pattern without key_by", reason, hint)
        return KeyedStream(self, ())

    def broadcast(self) -> BroadcastStream:
        """Send every row to every subtask; connect another stream to it."""
        self._refuse_rebalanced("broadcast", "every subtask gets every row", "remove rebalance")
        return BroadcastStream(self._job, self._as_input())

    def connect(self, other: BroadcastStream) -> ConnectedStreams:
        """Bring this stream together with a broadcast one; for two keyed streams call `key_by` on both."""
        if not isinstance(other, BroadcastStream) or other._job is not self._job:
            msg = "connect of a stream without keys takes a broadcast stream of the same job"
            raise InvalidStep(
                msg, code="STEP-077", step=self.step, found=repr(other), hint="call .broadcast() on the other stream"
            )
        return ConnectedStreams(self, self._as_input(), other._as_input())

    def side_output(self, name: str) -> DataStream:
        """Another output of the step: one declared with `outputs=`, `late`, or `dead`."""
        self._check_side_output(name)
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
        self._node = self._job._steps.start_chain(self._node.id)
        return self

    def sink(self, name: str, connector: ConnectorSpec, *, uid: str | None = None) -> None:
        """Write the rows through a connector; `uid` names its epochs, if the sink was called otherwise before."""
        self._job._steps.add_sink(name, connector, self._as_input(), uid=uid)

    def _then(
        self, operation: Operation, given_id: str | None, uid: str | None = None, *, on_error: OnErrorLike = "fail"
    ) -> DataStream:
        return self._behind(operation, (self._as_input(),), given_id, uid, on_error=on_error)

    def _behind(
        self,
        operation: Operation,
        inputs: Sequence[StepInput],
        given_id: str | None,
        uid: str | None = None,
        *,
        on_error: OnErrorLike = "fail",
    ) -> DataStream:
        return DataStream(self._job, self._added(operation, inputs, given_id, uid, on_error))
