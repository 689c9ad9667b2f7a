"""Keyed streams and windows: steps that hold state per key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from millstream.api.broadcast import BroadcastFunction, BroadcastStream
from millstream.api.functions import OnErrorLike, policy
from millstream.api.join import checked_choice, checked_how, join_operation
from millstream.api.pattern import Pattern, PatternStream
from millstream.api.process import CoProcessFunction, ProcessFunction
from millstream.api.signatures import output_schema
from millstream.errors import InvalidStep
from millstream.graph.aggregate import Aggregate
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.join import HOWS, How, TemporalJoin, WindowJoin
from millstream.graph.rank import RANK_EMITS, Deduplicate, RankEmit, TopN
from millstream.graph.step import (
    DEAD,
    LATE,
    MAIN,
    CoProcess,
    Emit,
    KeyedAggregate,
    Operation,
    Process,
    Reduce,
    StepInput,
    Window,
)
from millstream.graph.stream_graph import StreamNode
from millstream.graph.window import WindowSpec
from millstream.model.schema import SchemaLike, schema_of
from millstream.model.time import DurationLike, duration_ms, positive_ms

if TYPE_CHECKING:
    from millstream.api.job import Job
    from millstream.api.stream import DataStream

Handler = CoProcessFunction | BroadcastFunction
_EMITS: tuple[Emit, ...] = ("epoch", "row", "end")


class KeyedStream:
    """Rows partitioned by key.

    Every step that holds state takes `id=`, which names its state in checkpoints, and `uid=`, which names it instead once
    the step is renamed.
    """

    def __init__(self, job: Job, node: StreamNode, output: str, keys: tuple[str, ...]) -> None:
        self._job, self._node, self._output, self._keys = job, node, output, keys

    def aggregate(
        self, *, id: str | None = None, emit: Emit = "epoch", uid: str | None = None, **aggregates: Aggregate
    ) -> DataStream:
        """Running aggregates per key.

        Args:
            emit: `epoch`: the new value of each key that changed, once per epoch; `row`: after every row;
                `end`: once per key, when the input ends.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
            aggregates: `total=ms.sum("amount")`.
        """
        if emit not in _EMITS:
            msg = "unknown emit mode"
            raise InvalidStep(msg, code="STEP-070", step=id, found=repr(emit), known=_EMITS, hint="correct emit=")
        return self.then(KeyedAggregate(aggregates=checked(aggregates, id), emit=emit), id, uid)

    def reduce(
        self,
        function: Callable[[dict[str, Any], dict[str, Any]], Any] | str,
        *,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Combine each row with the result so far, `function(so_far, row)`; emits the result after every row."""
        return self.then(Reduce(function=function_ref(function, step=id)), id, uid)

    def process(
        self,
        function: ProcessFunction | type[ProcessFunction] | str,
        *,
        schema: SchemaLike | None = None,
        outputs: Mapping[str, SchemaLike] | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Run a process function with state and timers; `outputs` declares side outputs by name and schema."""
        label = id or f"{self._node.id}.process"
        target = function() if isinstance(function, type) else function
        reference = function_ref(target, step=label)
        if not isinstance(reference.target, ProcessFunction):
            msg = "process takes a ProcessFunction"
            raise InvalidStep(
                msg, code="STEP-071", step=label, found=reference.name, hint="subclass ms.ProcessFunction"
            )
        operation = Process(
            function=reference,
            schema=output_schema(type(reference.target).process, schema, step=label, many=True),
            states=tuple(reference.target.state_descriptors()),
            outputs=_side_outputs(outputs or {}, label),
            on_error=policy(on_error, label),
        )
        node = self._add(operation, id, uid)
        self._job.add_dead_letter(node, on_error)
        return self._job.stream(node)

    def window(self, window: WindowSpec, *, allowed_lateness: DurationLike = 0) -> WindowedStream:
        """Group the rows of a key by event time; close it with `aggregate`, `reduce` or `process`."""
        if not isinstance(window, WindowSpec):
            msg = "not a window"
            raise InvalidStep(msg, code="STEP-072", found=repr(window), hint="pass ms.tumbling('1m')")
        return WindowedStream(self, window, duration_ms(allowed_lateness, what="allowed_lateness"))

    def join(
        self,
        other: KeyedStream,
        *,
        how: How = "inner",
        within: tuple[DurationLike, DurationLike] | None = None,
        where: str | None = None,
        prefix: str | None = None,
        keep: DurationLike | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Pair rows of two keyed streams that have equal keys; null keys have no partner.

        A joined row has the columns of both sides and the later of their event times. With `within`, rows behind the
        watermark go to the outputs `late` (of this stream) and `late_right` (of the other). A row that finds no partner is
        emitted once the watermark has passed its last chance, whose time it carries. For joins by window see
        `window(...).join(...)`.

        Args:
            other: the right side, keyed by columns of the same types.
            how: `inner`; `left`, `right` or `full` also give rows without a partner, and need `within`.
            within: lower and upper bound, both included, of the right row's event time minus the left row's.
            where: a further condition on the columns of the joined row.
            prefix: stands before the names of right columns that the left side has too.
            keep: without `within`, forget rows that long after they came, by the epoch's clock; by default never.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        return self.pair(other, join_operation(how, within, where, prefix, keep), id, uid)

    def temporal_join(
        self,
        versions: KeyedStream,
        *,
        how: Literal["inner", "left"] = "inner",
        prefix: str | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Join each row with the version of its key that was valid when the row happened.

        A row of `versions` is valid from its event time until that of the next one with its key; of several at one instant the
        last that came counts. A row waits until the watermark has passed it, and keeps its event time. Rows behind the
        watermark go to the outputs `late` and, those of `versions`, `late_right`.

        Args:
            versions: the right side, keyed by columns of the same types, with event time.
            how: `left` also gives rows that happened before the first version of their key.
            prefix: stands before the names of right columns that the left side has too.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        return self.pair(versions, TemporalJoin(how=checked_how(how, ("inner", "left")), prefix=prefix), id, uid)

    def deduplicate(
        self,
        *,
        keep: Literal["first", "last"] = "first",
        by: str | None = None,
        ttl: DurationLike | None = None,
        emit: RankEmit = "epoch",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Keep one row of each key.

        Args:
            keep: `first` or `last`, to come or in the order `by`.
            by: an order, as in `event_time, sequence`; of equal rows the first, or last, to come stays.
            ttl: for the first to come: forget a key that long after its row, by the epoch's clock; its next row is then first.
            emit: `epoch`: the row that stays, once per epoch in which it is another one than before, so that the last row
                per key counts; the first row to come is emitted once. `end`: once per key, when the input ends.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        operation = Deduplicate(
            keep=checked_choice(keep, ("first", "last"), "keep"),
            by=by,
            ttl=None if ttl is None else positive_ms(ttl, what="ttl"),
            emit=checked_choice(emit, RANK_EMITS, "emit"),
        )
        return self.then(operation, id, uid)

    def top_n(
        self,
        n: int,
        *,
        by: str,
        rank: str = "rank_number",
        ties: bool = False,
        emit: RankEmit = "epoch",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """The first N rows of each key in an order, with their rank from 1 on.

        Args:
            n: how many rows of each key stay.
            by: an order, as in `price desc, event_id`; of equal rows the first to come comes first. Null is the smallest
                value, as in Spark.
            rank: the name of the column with the rank.
            ties: equal rows share a rank, and all rows with a rank up to `n` stay; needs `emit='end'`.
            emit: `epoch`: once per epoch, the rows whose rank is another one than before; the last row per key and rank
                counts, and a rank once given is never vacated. `end`: once, when the input ends.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        operation = TopN(n=n, by=by, rank=rank, ties=ties, emit=checked_choice(emit, RANK_EMITS, "emit"))
        return self.then(operation, id, uid)

    def pair(self, other: KeyedStream, operation: Operation, given_id: str | None, uid: str | None) -> DataStream:
        """Add a step over this stream and another keyed one."""
        if not isinstance(other, KeyedStream) or other._job is not self._job:
            msg = f"a {operation.kind} takes a keyed stream of the same job"
            raise InvalidStep(
                msg, code="STEP-077", step=given_id, found=repr(other), hint="call key_by on the other stream too"
            )
        inputs = (self.as_input(), other.as_input())
        return self._job.stream(self._job.add(operation, inputs, given_id=given_id, uid=uid))

    def connect(self, other: KeyedStream | BroadcastStream) -> ConnectedStreams:
        """Bring two streams together: rows with equal keys meet the same state and timers.

        The other stream is keyed too, or all of it reaches every subtask: `connect(rules.broadcast())`.
        """
        if isinstance(other, BroadcastStream) and other.job is self._job:
            return ConnectedStreams(self._job, self.as_input(), other.as_input())
        if not isinstance(other, KeyedStream) or other._job is not self._job:
            msg = "connect takes a keyed stream of the same job"
            raise InvalidStep(
                msg, code="STEP-077", step=self._node.id, found=repr(other), hint="call key_by on the other stream too"
            )
        return ConnectedStreams(self._job, self.as_input(), other.as_input())

    def as_input(self) -> StepInput:
        """This stream as the input of a step."""
        return StepInput(step=self._node.id, output=self._output, partition="hash", keys=self._keys)

    def pattern(self, pattern: Pattern, *, order_by: str | Sequence[str] = ()) -> PatternStream:
        """Look for a pattern in the rows of each key, in the order of event time, or as they come without event time.

        Args:
            pattern: `ms.pattern.begin("a").where("price > 10").next("b")`.
            order_by: columns that order rows of one instant; without them such rows stay in the order they came.
        """
        if not isinstance(pattern, Pattern):
            msg = "not a pattern"
            raise InvalidStep(msg, code="STEP-107", found=repr(pattern), hint="pass ms.pattern.begin('a')")
        columns = (order_by,) if isinstance(order_by, str) else tuple(order_by)
        return PatternStream(self, pattern.spec, columns)

    def then(self, operation: Operation, given_id: str | None, uid: str | None) -> DataStream:
        """Add a keyed step."""
        return self._job.stream(self._add(operation, given_id, uid))

    def _add(self, operation: Operation, given_id: str | None, uid: str | None) -> StreamNode:
        return self._job.add(operation, (self.as_input(),), given_id=given_id, uid=uid)

    def label(self, kind: str) -> str:
        """How a step without an id is called in messages."""
        return f"{self._node.id}.{kind}"


class ConnectedStreams:
    """Two streams that one function handles."""

    def __init__(self, job: Job, left: StepInput, right: StepInput) -> None:
        self._job, self._left, self._right = job, left, right

    def process(
        self,
        function: Handler | type[Handler] | str,
        *,
        schema: SchemaLike | None = None,
        outputs: Mapping[str, SchemaLike] | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Run a function with state and timers over both streams; within an epoch the left rows of a phase come first."""
        label = id or f"{self._left.step}.co_process"
        target = function() if isinstance(function, type) else function
        reference = function_ref(target, step=label)
        made = self._checked(reference, label)
        method = type(made).process if isinstance(made, BroadcastFunction) else type(made).process_left
        operation = CoProcess(
            function=reference,
            schema=output_schema(method, schema, step=label, many=True),
            states=tuple(made.state_descriptors()),
            broadcast=tuple(made.broadcast_descriptors()) if isinstance(made, BroadcastFunction) else (),
            outputs=_side_outputs(outputs or {}, label),
            on_error=policy(on_error, label),
        )
        node = self._job.add(operation, (self._left, self._right), given_id=id, uid=uid)
        self._job.add_dead_letter(node, on_error)
        return self._job.stream(node)

    def _checked(self, reference: FunctionRef, label: str) -> Handler:
        """The function must be of the kind that the two streams need."""
        is_broadcast = self._right.partition == "broadcast"
        wanted = BroadcastFunction if is_broadcast else CoProcessFunction
        made = reference.target
        if not isinstance(made, (BroadcastFunction, CoProcessFunction)) or not isinstance(made, wanted):
            msg = f"{'a broadcast stream takes' if is_broadcast else 'connected streams take'} a {wanted.__name__}"
            raise InvalidStep(
                msg, code="STEP-078", step=label, found=reference.name, hint=f"subclass ms.{wanted.__name__}"
            )
        if not self._left.keys and made.state_descriptors():
            msg = "state per key needs a keyed stream"
            found = ", ".join(state.name for state in made.state_descriptors())
            raise InvalidStep(msg, code="STEP-079", step=label, found=found, hint="call key_by before connect")
        return made


class WindowedStream:
    """Windows per key; the methods say what becomes of a window's rows when the watermark passes its end."""

    def __init__(self, stream: KeyedStream, window: WindowSpec, lateness: int) -> None:
        self._stream, self._window, self._lateness = stream, window, lateness

    def aggregate(self, *, id: str | None = None, uid: str | None = None, **aggregates: Aggregate) -> DataStream:
        """Built-in aggregates: key columns, `window_start`, `window_end` and one column each."""
        return self._close(id, uid, aggregates=checked(aggregates, id))

    def reduce(
        self,
        function: Callable[[dict[str, Any], dict[str, Any]], Any] | str,
        *,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Combine a window's rows two by two; emits the result."""
        return self._close(id, uid, reduce=function_ref(function, step=id))

    def process(
        self,
        function: Callable[..., Any] | str,
        *,
        schema: SchemaLike | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Call `function(key, window, rows)` with all rows of a window; it returns or yields rows."""
        label = id or self._stream.label("window")
        reference = function_ref(function, step=label)
        target = output_schema(reference.target, schema, step=label, many=True)
        return self._close(id, uid, process=reference, schema=target)

    def join(
        self,
        other: KeyedStream,
        *,
        how: How = "inner",
        where: str | None = None,
        prefix: str | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Pair rows of two keyed streams that have equal keys and happened in the same window.

        Pairs are emitted when the window closes, with its last instant as their event time and with columns
        `window_start` and `window_end`. A row that comes later, within the allowed lateness, gives the pairs that it adds.
        The options are those of `KeyedStream.join`; rows that come too late go to `late` and `late_right`.
        """
        operation = WindowJoin(
            window=self._window, how=checked_how(how, HOWS), where=where, prefix=prefix, lateness=self._lateness
        )
        return self._stream.pair(other, operation, id, uid)

    def _close(self, given_id: str | None, uid: str | None, **how: Any) -> DataStream:
        return self._stream.then(Window(window=self._window, lateness=self._lateness, **how), given_id, uid)


def checked(aggregates: Mapping[str, Any], step: str | None) -> tuple[tuple[str, Aggregate], ...]:
    """Aggregates given as keyword arguments."""
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            msg = f"{name!r} is not an aggregate"
            raise InvalidStep(msg, code="STEP-073", step=step, found=repr(aggregate), hint=f"{name}=ms.sum('column')")
    return tuple(aggregates.items())


def _side_outputs(outputs: Mapping[str, SchemaLike], step: str) -> tuple[tuple[str, Any], ...]:
    for name in outputs:
        if name in {MAIN, LATE, DEAD}:
            msg = f"side output {name!r} is reserved"
            raise InvalidStep(msg, code="STEP-074", step=step, hint="choose another name")
    return tuple((name, schema_of(schema)) for name, schema in outputs.items())
