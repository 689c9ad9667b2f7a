"""Windows per key: what they are closed by, when they fire, and which options go together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef
from millstream.graph.operation import Operation, Outputs, PlacedStep, ResolvedStep
from millstream.graph.operations.aggregate import Aggregates, aggregated, aggregates_text, stored_aggregates
from millstream.graph.outputs import key_fields
from millstream.graph.state import StateDescriptor
from millstream.graph.step import LATE, MAIN
from millstream.graph.windows.evictor import EvictorSpec
from millstream.graph.windows.trigger import TriggerSpec
from millstream.graph.windows.window import WINDOW_FIELDS, WindowSpec, refuse_untimed
from millstream.model.ids import StepId
from millstream.model.schema import Field, Schema

Accumulation = Literal["accumulating", "discarding"]
ACCUMULATIONS: tuple[Accumulation, ...] = ("accumulating", "discarding")
PANE_FIELDS = (Field("pane_index", pa.int64(), nullable=False), Field("pane_timing", pa.string(), nullable=False))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window(Operation):
    """Windows per key, closed by built-in aggregates, a reduction or a window function: exactly one of them."""

    kind = "window"
    runs_as = "keyed"
    window: WindowSpec
    lateness: int = 0
    aggregates: Aggregates = ()
    reduce: FunctionRef | None = None
    process: FunctionRef | None = None
    schema: Schema | None = None
    trigger: TriggerSpec | None = None
    """`None`: the window fires when its time has passed, and again for late rows."""
    accumulation: Accumulation = "accumulating"
    evictor: EvictorSpec | None = None
    pane: bool = False
    outputs: tuple[tuple[str, Schema], ...] = ()
    key_states: tuple[StateDescriptor, ...] = dataclasses.field(init=False, default=())
    """The states that the window function declares per key, in the order of its class as it was written."""
    window_states: tuple[StateDescriptor, ...] = dataclasses.field(init=False, default=())
    """Those that it declares per window."""

    def __post_init__(self) -> None:
        if self.lateness < 0:
            msg = "allowed_lateness is below zero"
            raise _refuse(msg, "STEP-023", f"{self.lateness} ms", "correct allowed_lateness=")
        object.__setattr__(self, "key_states", _declared(self.process, "key_descriptors"))
        object.__setattr__(self, "window_states", _declared(self.process, "window_descriptors"))
        _check_accumulation(self.accumulation)
        _check_kind(self)
        if self.trigger is not None:
            _check_trigger(self, self.trigger)
        _check_results(self)

    @property
    def is_stateful_function(self) -> bool:
        """Whether the window function is one with a context and state."""
        return self.process is not None and hasattr(self.process.target, "window_descriptors")

    @property
    def has_options(self) -> bool:
        """Whether its windows do more than fire when their time has passed and when late rows come."""
        is_ruled = self.trigger is not None or self.evictor is not None or self.accumulation != "accumulating"
        return is_ruled or self.pane or self.is_stateful_function

    @property
    def is_triggered(self) -> bool:
        """Whether its windows are more than windows of event time that fire by default."""
        return self.has_options or not self.window.is_event_timed

    @property
    def keeps_rows(self) -> bool:
        """Whether the rows of a window are kept, and not only what they add up to."""
        is_sliding_count = self.window.kind == "count" and self.window.rows != self.window.every_rows
        return self.process is not None or self.evictor is not None or is_sliding_count

    @property
    def needs_event_time(self) -> bool:
        """Whether rows without event time would belong to no window, or to one that is never done."""
        by_trigger = self.trigger is not None and self.trigger.needs_event_time
        return self.window.is_event_timed or by_trigger or any(state.is_event_timed for state in self.key_states)

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """Key, bounds of the window and aggregates, or what the function gives; and late rows."""
        (schema,) = schemas
        late = {LATE: schema} if self.window.is_event_timed else {}
        if self.evictor is not None:
            self.evictor.check(schema, step.id)
        if self.reduce is None and self.process is None:
            expressions, fields = aggregated(self.aggregates, schema, step.id)
            bounds = WINDOW_FIELDS if self.window.has_bounds else ()
            panes = PANE_FIELDS if self.pane else ()
            return expressions, {MAIN: Schema(key_fields(step, schema) + bounds + panes + fields), **late}
        return (), {MAIN: self.schema or schema, **late, **dict(self.outputs)}

    def describe(self) -> str:
        """What closes a window."""
        if self.aggregates:
            return aggregates_text(self.aggregates)
        function = self.reduce or self.process
        assert function is not None, "a window is closed by aggregates, a reduction or a function"
        return f"{'reduce' if self.reduce else 'process'} {function.describe()}"

    def facts(self) -> Iterator[tuple[str, str]]:
        """The window, when it fires, what is left of it then, and the states of its function."""
        yield "window", self.window.describe_with(self.lateness)
        if self.trigger is not None:
            yield "trigger", self.trigger.describe()
        if self.accumulation != "accumulating":
            yield "firings", self.accumulation
        if self.evictor is not None:
            yield "evictor", self.evictor.describe()
        for scope, states in (("key", self.key_states), ("window", self.window_states)):
            for state in states:
                yield "state", f"{state.name}: {state.kind} of {state.type_text}, per {scope}"

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """The window, what closes it, and what windows that fire otherwise than by default keep."""
        closed_by = next(how for how in ("aggregates", "reduce", "process") if getattr(self, how))
        stored = {
            "aggregates": stored_aggregates(self.aggregates, node),
            "window": self.window.stored,
            "closed_by": closed_by,
        }
        if not self.is_triggered:
            return stored
        return stored | {
            "trigger": None if self.trigger is None else self.trigger.type_text,
            "accumulation": self.accumulation,
            "keeps_rows": self.keeps_rows,
            "states": [state.stored for state in self.key_states],
            "window_states": [state.stored for state in self.window_states],
        }

    def check_times(self, step: PlacedStep, times: Sequence[Sequence[StepId]]) -> None:
        """Windows of event time, and what waits for an instant of it, need that."""
        if self.needs_event_time:
            refuse_untimed(step.id, times)


def _declared(function: FunctionRef | None, method: str) -> tuple[StateDescriptor, ...]:
    descriptors = getattr(function.target, method, None) if function is not None else None
    return () if descriptors is None else tuple(descriptors())


def _check_accumulation(accumulation: str) -> None:
    if accumulation in ACCUMULATIONS:
        return
    is_retracting = "retract" in str(accumulation)
    msg = "retracting results is not supported" if is_retracting else "unknown accumulation"
    raise InvalidStep(msg, code="STEP-129", found=repr(accumulation), known=ACCUMULATIONS, hint="correct accumulation=")


def _check_kind(operation: Window) -> None:
    kind = operation.window.kind
    if operation.lateness and not operation.window.is_event_timed:
        msg = "only windows of event time have late rows"
        raise _refuse(msg, "STEP-123", operation.window.describe(), "remove allowed_lateness=")
    if kind == "global" and operation.trigger is None:
        msg = "a global window never ends, so it needs a trigger"
        raise _refuse(msg, "STEP-123", "no trigger", "give trigger=ms.trigger.count(100)")
    given = [name for name in ("trigger", "evictor") if getattr(operation, name) is not None]
    given += ["accumulation"] if operation.accumulation != "accumulating" else []
    if kind == "count" and given:
        msg = "a count window fires when its rows are there"
        raise _refuse(msg, "STEP-123", f"{given[0]}=", f"remove {given[0]}=, or use ms.global_window()")


def _check_trigger(operation: Window, trigger: TriggerSpec) -> None:
    window = operation.window
    kinds = {part.kind for part in trigger.parts}
    if "event_time" in kinds and window.has_bounds and not window.is_event_timed:
        msg = "a window of processing time does not end in event time"
        raise _refuse(msg, "STEP-123", trigger.describe(), "use ms.trigger.processing_time()")
    if "processing_time" in kinds and not window.has_bounds:
        msg = "a global window has no end that the clock could pass"
        raise _refuse(msg, "STEP-123", trigger.describe(), "use ms.trigger.every('10s') or ms.trigger.count(100)")
    if trigger.late_trigger is not None and not operation.lateness:
        msg = "without allowed lateness nothing fires late"
        raise _refuse(msg, "STEP-123", trigger.describe(), "give allowed_lateness=, or remove .late(...)")
    if window.kind == "session" and trigger.unmerged is not None:
        msg = "sessions become one, and the trigger does not say what becomes of its state and timers"
        raise _refuse(msg, "STEP-126", trigger.unmerged, "define on_merge(self, window, ctx)")


def _check_results(operation: Window) -> None:
    """What may stand beside the results, and what a window function must say of its own state."""
    if operation.pane not in {True, False}:
        msg = "pane is true or false"
        raise _refuse(msg, "STEP-132", repr(operation.pane), "correct pane=")
    if operation.pane and not operation.aggregates:
        msg = "pane columns stand beside aggregates"
        raise _refuse(msg, "STEP-132", "pane=True", "in a process function use ctx.pane of ms.WindowFunction")
    if operation.outputs and not operation.is_stateful_function:
        msg = "side outputs of a window need a window function with a context"
        raise _refuse(msg, "STEP-130", "a plain function", "subclass ms.WindowFunction and call ctx.output(name, row)")
    merges = operation.process is not None and bool(getattr(operation.process.target, "merges", False))
    if operation.window.kind == "session" and operation.window_states and not merges:
        msg = "sessions become one, and the function does not say what becomes of its window state"
        raise _refuse(msg, "STEP-126", operation.window_states[0].name, "define on_merge(self, window, ctx)")


def _refuse(msg: str, code: str, given: str, hint: str) -> InvalidStep:
    return InvalidStep(msg, code=code, found=given, hint=hint)
