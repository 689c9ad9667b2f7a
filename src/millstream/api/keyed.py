"""Keyed streams and windows: steps that hold state per key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from millstream.api.functions import OnErrorLike, policy
from millstream.api.process import ProcessFunction
from millstream.api.signatures import output_schema
from millstream.errors import InvalidStep
from millstream.graph.aggregate import Aggregate
from millstream.graph.function import function_ref
from millstream.graph.step import DEAD, LATE, MAIN, Emit, KeyedAggregate, Operation, Process, Reduce, StepInput, Window
from millstream.graph.stream_graph import StreamNode
from millstream.graph.window import WindowSpec
from millstream.model.ids import StepId
from millstream.model.schema import SchemaLike, schema_of
from millstream.model.time import DurationLike, duration_ms

if TYPE_CHECKING:
    from millstream.api.job import Job
    from millstream.api.stream import DataStream

_EMITS: tuple[Emit, ...] = ("epoch", "row", "end")


class KeyedStream:
    """Rows partitioned by key. Every step that holds state takes `id=`, which names its state in checkpoints."""

    def __init__(self, job: Job, node: StreamNode, output: str, keys: tuple[str, ...]) -> None:
        self._job, self._node, self._output, self._keys = job, node, output, keys

    def aggregate(self, *, id: str | None = None, emit: Emit = "epoch", **aggregates: Aggregate) -> DataStream:
        """Running aggregates per key.

        Args:
            emit: `epoch`: the new value of each key that changed, once per epoch; `row`: after every row;
                `end`: once per key, when the input ends.
            id: names the state.
            aggregates: `total=ms.sum("amount")`.
        """
        if emit not in _EMITS:
            msg = "unknown emit mode"
            raise InvalidStep(msg, code="STEP-070", step=id, found=repr(emit), known=_EMITS, hint="correct emit=")
        return self.then(KeyedAggregate(aggregates=checked(aggregates, id), emit=emit), id)

    def reduce(
        self, function: Callable[[dict[str, Any], dict[str, Any]], Any] | str, *, id: str | None = None
    ) -> DataStream:
        """Combine each row with the result so far, `function(so_far, row)`; emits the result after every row."""
        return self.then(Reduce(function=function_ref(function, step=id)), id)

    def process(
        self,
        function: ProcessFunction | type[ProcessFunction] | str,
        *,
        schema: SchemaLike | None = None,
        outputs: Mapping[str, SchemaLike] | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
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
        stream = self.then(operation, id)
        self._job.add_dead_letter(StepId(stream.step), on_error)
        return stream

    def window(self, window: WindowSpec, *, allowed_lateness: DurationLike = 0) -> WindowedStream:
        """Group the rows of a key by event time; close it with `aggregate`, `reduce` or `process`."""
        if not isinstance(window, WindowSpec):
            msg = "not a window"
            raise InvalidStep(msg, code="STEP-072", found=repr(window), hint="pass ms.tumbling('1m')")
        return WindowedStream(self, window, duration_ms(allowed_lateness, what="allowed_lateness"))

    def then(self, operation: Operation, given_id: str | None) -> DataStream:
        """Add a keyed step."""
        edge = StepInput(step=self._node.id, output=self._output, partition="hash", keys=self._keys)
        return self._job.stream(self._job.add(operation, (edge,), given_id=given_id))

    def label(self, kind: str) -> str:
        """How a step without an id is called in messages."""
        return f"{self._node.id}.{kind}"


class WindowedStream:
    """Windows per key; the methods say what becomes of a window's rows when the watermark passes its end."""

    def __init__(self, stream: KeyedStream, window: WindowSpec, lateness: int) -> None:
        self._stream, self._window, self._lateness = stream, window, lateness

    def aggregate(self, *, id: str | None = None, **aggregates: Aggregate) -> DataStream:
        """Built-in aggregates: key columns, `window_start`, `window_end` and one column each."""
        return self._close(id, aggregates=checked(aggregates, id))

    def reduce(
        self, function: Callable[[dict[str, Any], dict[str, Any]], Any] | str, *, id: str | None = None
    ) -> DataStream:
        """Combine a window's rows two by two; emits the result."""
        return self._close(id, reduce=function_ref(function, step=id))

    def process(
        self, function: Callable[..., Any] | str, *, schema: SchemaLike | None = None, id: str | None = None
    ) -> DataStream:
        """Call `function(key, window, rows)` with all rows of a window; it returns or yields rows."""
        label = id or self._stream.label("window")
        reference = function_ref(function, step=label)
        target = output_schema(reference.target, schema, step=label, many=True)
        return self._close(id, process=reference, schema=target)

    def _close(self, given_id: str | None, **how: Any) -> DataStream:
        return self._stream.then(Window(window=self._window, lateness=self._lateness, **how), given_id)


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
