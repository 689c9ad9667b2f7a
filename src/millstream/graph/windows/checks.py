"""Which options of a window go together; whatever would be ignored or never happen is refused when the step is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from millstream.errors import InvalidStep
from millstream.graph.windows.trigger import TriggerSpec

if TYPE_CHECKING:
    from millstream.graph.step import Window

Accumulation = Literal["accumulating", "discarding"]
ACCUMULATIONS: tuple[Accumulation, ...] = ("accumulating", "discarding")


def check_window(operation: Window) -> None:
    """Refuse options that contradict each other."""
    _check_accumulation(operation)
    _check_kind(operation)
    if operation.trigger is not None:
        _check_trigger(operation, operation.trigger)
    if operation.pane not in {True, False}:
        msg = "pane is true or false"
        raise _refuse(msg, "STEP-132", repr(operation.pane), "correct pane=")
    if operation.pane and not operation.aggregates:
        msg = "pane columns stand beside aggregates"
        raise _refuse(msg, "STEP-132", "pane=True", "in a process function use ctx.pane of ms.WindowFunction")
    if operation.outputs and not operation.is_stateful_function:
        msg = "side outputs of a window need a window function with a context"
        raise _refuse(msg, "STEP-130", "a plain function", "subclass ms.WindowFunction and call ctx.output(name, row)")
    if operation.window.kind == "session" and operation.window_states and not _merges(operation):
        msg = "sessions become one, and the function does not say what becomes of its window state"
        raise _refuse(msg, "STEP-126", operation.window_states[0].name, "define on_merge(self, window, ctx)")


def _check_accumulation(operation: Window) -> None:
    if operation.accumulation in ACCUMULATIONS:
        return
    is_retracting = "retract" in str(operation.accumulation)
    msg = "retracting results is not supported" if is_retracting else "unknown accumulation"
    raise InvalidStep(
        msg, code="STEP-129", found=repr(operation.accumulation), known=ACCUMULATIONS, hint="correct accumulation="
    )


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


def _merges(operation: Window) -> bool:
    return operation.process is not None and bool(operation.process.target.merges)


def _refuse(msg: str, code: str, found: str, hint: str) -> InvalidStep:
    return InvalidStep(msg, code=code, found=found, hint=hint)
