"""Keyed streams and windows: steps that hold state per key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from millstream.api.functions.process import ProcessFunction
from millstream.api.streams.aggregates import running_aggregate
from millstream.api.streams.broadcast import BroadcastStream, updates_input
from millstream.api.streams.choices import checked_how
from millstream.api.streams.connected import ConnectedStreams
from millstream.api.streams.join import join_operation
from millstream.api.streams.kept import KeptRows
from millstream.api.streams.matched import PatternStream, ordered
from millstream.api.streams.processing import agent_operation, process_operation
from millstream.api.streams.windowed import WindowedStream, window_options
from millstream.api.values.error_policy import OnErrorLike
from millstream.api.values.pattern import Pattern
from millstream.api.values.trigger import Trigger
from millstream.errors import InvalidStep
from millstream.graph.function import function_ref
from millstream.graph.operation import Operation
from millstream.graph.operations.aggregate import Aggregate, Emit, Reduce
from millstream.graph.operations.join import How, TemporalJoin
from millstream.graph.operations.rules import OnUpdate, Patterns
from millstream.graph.operations.window import Accumulation
from millstream.graph.step import PartitionKind, StepInput
from millstream.graph.windows.evictor import EvictorSpec
from millstream.graph.windows.trigger import TriggerSpec
from millstream.graph.windows.window import WindowSpec
from millstream.model.schema import SchemaLike
from millstream.model.time import DurationLike, duration_ms
from millstream.tracebacks import public

if TYPE_CHECKING:
    # The kinds of streams lead to each other: each is built by the one above it, and says which one it leads back to.
    from millstream.api.streams.stream import DataStream


@public
class KeyedStream(KeptRows):
    """Rows partitioned by key.

    Every step that holds state takes `id=`, which names its state in checkpoints, and `uid=`, which names it instead once
    the step is renamed.
    """

    def __init__(self, rows: DataStream, keys: tuple[str, ...]) -> None:
        self._rows, self._keys = rows, keys

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
        return self._then(running_aggregate(aggregates, emit, id), id, uid)

    def reduce(
        self,
        function: Callable[[dict[str, Any], dict[str, Any]], Any] | str,
        *,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Combine each row with the result so far, `function(so_far, row)`; emits the result after every row."""
        return self._then(Reduce(function=function_ref(function, step=id)), id, uid)

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
        operation = process_operation(function, schema, outputs, on_error, id or self._label("process"))
        return self._then(operation, id, uid, on_error=on_error)

    def agent(
        self,
        agent: Any,
        *,
        schema: SchemaLike,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Run an agent: each row is an input of its key, and the rows of `schema` are what its actions send out.

        Args:
            agent: a `millstream.agents.Agent`, its class, or `module:Class`.
            schema: the columns of its outputs.
            on_error: what becomes of an input one of whose actions raises.
            id: names the memory of its keys.
            uid: names the memory, if the step was called otherwise when it was written.
        """
        operation = agent_operation(agent, schema, on_error, id or self._label("agent"))
        return self._then(operation, id, uid, on_error=on_error)

    def window(
        self,
        window: WindowSpec,
        *,
        allowed_lateness: DurationLike = 0,
        trigger: TriggerSpec | Trigger | type[Trigger] | None = None,
        accumulation: Accumulation = "accumulating",
        evictor: EvictorSpec | None = None,
    ) -> WindowedStream:
        """Group the rows of a key; close it with `aggregate`, `reduce` or `process`.

        Args:
            window: `ms.tumbling("1m")`, `ms.count_window(100)`, …
            allowed_lateness: how long a window of event time stays after its end to take late rows.
            trigger: when a window fires; by default when its time has passed.
            accumulation: `accumulating`: a firing has all rows of the window; `discarding`: those since the last firing.
            evictor: which of its rows a firing sees.
        """
        lateness = duration_ms(allowed_lateness, what="allowed_lateness")
        return WindowedStream(self, window_options(window, lateness, trigger, accumulation, evictor))

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
        return self._pair(other, join_operation(how, within, where, prefix, keep), id, uid)

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
        return self._pair(versions, TemporalJoin(how=checked_how(how, ("inner", "left")), prefix=prefix), id, uid)

    def _pair(self, other: KeyedStream, operation: Operation, given_id: str | None, uid: str | None) -> DataStream:
        """Add a step over this stream and another keyed one."""
        if not self._is_mate(other):
            msg = f"a {operation.kind} takes a keyed stream of the same job"
            raise InvalidStep(
                msg, code="STEP-077", step=given_id, found=repr(other), hint="call key_by on the other stream too"
            )
        return self._rows._behind(operation, (self._as_input(), other._as_input()), given_id, uid)

    def connect(self, other: KeyedStream | BroadcastStream) -> ConnectedStreams:
        """Bring two streams together: rows with equal keys meet the same state and timers.

        The other stream is keyed too, or all of it reaches every subtask: `connect(rules.broadcast())`.
        """
        is_broadcast = isinstance(other, BroadcastStream) and other._job is self._rows._job
        if not is_broadcast and not self._is_mate(other):
            msg = "connect takes a keyed stream of the same job"
            raise InvalidStep(
                msg,
                code="STEP-077",
                step=self._rows.step,
                found=repr(other),
                hint="call key_by on the other stream too",
            )
        return ConnectedStreams(self._rows, self._as_input(), other._as_input())

    def _is_mate(self, other: object) -> bool:
        return isinstance(other, KeyedStream) and other._rows._job is self._rows._job

    def _as_input(self) -> StepInput:
        """This stream as the input of a step."""
        partition: PartitionKind = "hash" if self._keys else "single"
        return StepInput(step=self._rows._node.id, output=self._rows._output, partition=partition, keys=self._keys)

    def pattern(self, pattern: Pattern, *, order_by: str | Sequence[str] = ()) -> PatternStream:
        """Look for a pattern in the rows of each key, in the order of event time, or as they come without event time.

        Args:
            pattern: `ms.pattern.begin("a").where("price > 10").next("b")`.
            order_by: columns that order rows of one instant; without them such rows stay in the order they came.
        """
        if not isinstance(pattern, Pattern):
            msg = "not a pattern"
            raise InvalidStep(msg, code="STEP-107", found=repr(pattern), hint="pass ms.pattern.begin('a')")
        return PatternStream(self, pattern.spec, ordered(order_by))

    def patterns(
        self,
        updates: BroadcastStream,
        *,
        on_update: OnUpdate = "restart",
        order_by: str | Sequence[str] = (),
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Look for all patterns that a broadcast stream brings, replaces and takes away while the job runs.

        A row of `updates` has the columns `rule string` and `pattern string`, a definition in the form of job files, and may
        have `version long` and `deleted boolean`. A match gives `rule`, `version`, the key columns, and `match`, the measures
        of the definition as JSON. A definition that is not usable goes to the output `dead`.

        Args:
            updates: `rules.broadcast()`.
            on_update: what becomes of the partial matches of a pattern that is replaced: `restart` drops them, `keep` lets
                them run out, which needs `within`.
            order_by: columns that order rows of one instant; without them such rows stay in the order they came.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        inputs = (self._as_input(), updates_input(updates, self._rows._job, id))
        operation = Patterns(on_update=on_update, order_by=ordered(order_by))
        return self._rows._behind(operation, inputs, id, uid)

    def _then(
        self, operation: Operation, given_id: str | None, uid: str | None, *, on_error: OnErrorLike = "fail"
    ) -> DataStream:
        """The stream behind a step over these rows; used by windows and patterns too."""
        return self._rows._behind(operation, (self._as_input(),), given_id, uid, on_error=on_error)

    def _label(self, kind: str) -> str:
        """How a step without an id is called in messages."""
        return f"{self._rows.step}.{kind}"
