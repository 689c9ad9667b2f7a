"""From triggers as values to triggers at work, and what they keep per window."""

from __future__ import annotations

from typing import Any

from millstream.graph.operations.window import Window
from millstream.graph.windows.trigger import TriggerSpec
from millstream.runtime.operators.window.triggered.custom import Custom
from millstream.runtime.operators.window.triggered.ending import EndOfEventTime, EndOfProcessingTime
from millstream.runtime.operators.window.triggered.repeating import Count, EveryEvent, EveryProcessing, Purging
from millstream.runtime.operators.window.triggered.running_trigger import RunningTrigger
from millstream.runtime.operators.window.triggered.windows import Scope, WindowCell


def trigger_spec(operation: Window) -> TriggerSpec:
    """The trigger of a window; count windows and time windows have one of their own."""
    if operation.trigger is not None:
        return operation.trigger
    if operation.window.kind == "count":
        return TriggerSpec(kind="count", rows=operation.window.every_rows)
    return TriggerSpec(kind="event_time" if operation.window.is_event_timed else "processing_time")


def trigger_types(spec: TriggerSpec) -> list[Any]:
    """What a trigger keeps per window: a number for each part that counts or repeats, and declared states."""
    types: list[Any] = []
    for part in spec.parts:
        types += [int] if part.kind in {"count", "every"} else [state.content for state in part.states]
    return types


def running_trigger(spec: TriggerSpec, scope: Scope, step: str, first: int = 0) -> RunningTrigger:
    """A trigger at work; the states of its parts follow each other in the order of `trigger_types`, from the first place on."""
    match spec.kind:
        case "count":
            return Count(WindowCell(scope, "trigger", first), spec.rows)
        case "every" if spec.time == "event":
            return EveryEvent(WindowCell(scope, "trigger", first), spec.interval)
        case "every":
            return EveryProcessing(WindowCell(scope, "trigger", first), spec.interval)
        case "purging":
            assert spec.inner is not None, "purging has an inner trigger"
            return Purging(running_trigger(spec.inner, scope, step, first))
        case "custom":
            return Custom(spec, scope, step, first)
        case "processing_time":
            return EndOfProcessingTime()
        case _:
            return _phased(spec, scope, step, first)


def _phased(spec: TriggerSpec, scope: Scope, step: str, first: int) -> RunningTrigger:
    early, late = spec.early_trigger, spec.late_trigger
    width = 0 if early is None else len(trigger_types(early))
    return EndOfEventTime(
        None if early is None else running_trigger(early, scope, step, first),
        None if late is None else running_trigger(late, scope, step, first + width),
    )
