"""From triggers as values to triggers at work, and what they keep per window."""

from __future__ import annotations

from typing import Any

from millstream.graph.operations.window import Window
from millstream.graph.windows.trigger import TriggerSpec
from millstream.runtime.operators.window.triggered.asked import Asked
from millstream.runtime.operators.window.triggered.custom import Custom
from millstream.runtime.operators.window.triggered.ending import EndOfEventTime, EndOfProcessingTime
from millstream.runtime.operators.window.triggered.repeating import Count, EveryEvent, EveryProcessing, Purging
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


def asked(spec: TriggerSpec, scope: Scope, step: str, slot: int = 0) -> Asked:
    """A trigger at work; its parts take their slots in the order of `trigger_types`."""
    match spec.kind:
        case "count":
            return Count(WindowCell(scope, "trigger", slot), spec.rows)
        case "every" if spec.time == "event":
            return EveryEvent(WindowCell(scope, "trigger", slot), spec.interval)
        case "every":
            return EveryProcessing(WindowCell(scope, "trigger", slot), spec.interval)
        case "purging":
            assert spec.inner is not None, "purging has an inner trigger"
            return Purging(asked(spec.inner, scope, step, slot))
        case "custom":
            return Custom(spec, scope, step, slot)
        case "processing_time":
            return EndOfProcessingTime()
        case _:
            return _phased(spec, scope, step, slot)


def _phased(spec: TriggerSpec, scope: Scope, step: str, slot: int) -> Asked:
    early, late = spec.early_trigger, spec.late_trigger
    width = 0 if early is None else len(trigger_types(early))
    return EndOfEventTime(
        None if early is None else asked(early, scope, step, slot),
        None if late is None else asked(late, scope, step, slot + width),
    )
