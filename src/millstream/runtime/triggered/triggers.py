"""How triggers are evaluated. Every trigger of a window is asked about every timer and knows its own."""

from __future__ import annotations

import copy
from typing import Any, Protocol

from millstream.api.state import states_of
from millstream.api.trigger import TriggerResult
from millstream.errors import StepFailed
from millstream.graph.step import Window
from millstream.graph.trigger import TriggerSpec
from millstream.runtime.policy import failure
from millstream.runtime.triggered.windows import AnyWindow, Scope, WindowCell

# Plain numbers, because rows are many.
CONTINUE, FIRE, PURGE = map(int, (TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.PURGE))


class Asked(Protocol):
    """A trigger while a job runs. It sees the open window and its timers through the scope."""

    def on_row(self, row: Any, scope: Scope) -> int:
        """A row was added."""
        ...

    def on_event_time(self, time: int, scope: Scope) -> int:
        """The watermark has reached a timer."""
        ...

    def on_processing_time(self, time: int, scope: Scope) -> int:
        """The clock has reached a timer."""
        ...

    def on_merge(self, scope: Scope) -> None:
        """The windows in `scope.merging` became the open one, which has neither timers nor trigger state yet."""
        ...

    def clear(self, scope: Scope) -> None:
        """Forget state and timers: another trigger takes over."""
        ...


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
            return _Count(WindowCell(scope, "trigger", slot), spec.rows)
        case "every" if spec.time == "event":
            return _EveryEvent(WindowCell(scope, "trigger", slot), spec.interval)
        case "every":
            return _EveryProcessing(WindowCell(scope, "trigger", slot), spec.interval)
        case "purging":
            assert spec.inner is not None, "purging has an inner trigger"
            return _Purging(asked(spec.inner, scope, step, slot))
        case "custom":
            return _Custom(spec, scope, step, slot)
        case "processing_time":
            return _EndOfProcessingTime()
        case _:
            return _phased(spec, scope, step, slot)


def _phased(spec: TriggerSpec, scope: Scope, step: str, slot: int) -> Asked:
    early, late = spec.early_trigger, spec.late_trigger
    width = 0 if early is None else len(trigger_types(early))
    return _EndOfEventTime(
        None if early is None else asked(early, scope, step, slot),
        None if late is None else asked(late, scope, step, slot + width),
    )


class _Quiet:
    """A trigger that does nothing unless it says so."""

    def on_event_time(self, time: int, scope: Scope) -> int:
        return CONTINUE

    def on_processing_time(self, time: int, scope: Scope) -> int:
        return CONTINUE

    def on_merge(self, scope: Scope) -> None:
        return

    def clear(self, scope: Scope) -> None:
        return


class _EndOfEventTime:
    """Fires when the watermark reaches the last instant; other triggers may rule before and after that."""

    def __init__(self, early: Asked | None, late: Asked | None) -> None:
        self._early, self._late = early, late

    def on_row(self, row: Any, scope: Scope) -> int:
        if scope.open.last <= scope.watermark:
            return FIRE if self._late is None else self._late.on_row(row, scope)
        scope.event_timer(scope.open.last)
        return CONTINUE if self._early is None else self._early.on_row(row, scope)

    def on_event_time(self, time: int, scope: Scope) -> int:
        last = scope.open.last
        if time == last:
            if self._early is not None:
                self._early.clear(scope)
            return FIRE
        phase = self._early if time < last else self._late
        return CONTINUE if phase is None else phase.on_event_time(time, scope)

    def on_processing_time(self, time: int, scope: Scope) -> int:
        phase = self._late if scope.open.last <= scope.watermark else self._early
        return CONTINUE if phase is None else phase.on_processing_time(time, scope)

    def on_merge(self, scope: Scope) -> None:
        is_over = scope.open.last <= scope.watermark
        if not is_over:
            scope.event_timer(scope.open.last)
        phase = self._late if is_over else self._early
        if phase is not None:
            phase.on_merge(scope)

    def clear(self, scope: Scope) -> None:
        scope.delete_event_timer(scope.open.last)
        for phase in (self._early, self._late):
            if phase is not None:
                phase.clear(scope)


class _EndOfProcessingTime(_Quiet):
    """Fires when the clock has passed the window: all epochs whose clock lies inside it are over."""

    def on_row(self, row: Any, scope: Scope) -> int:
        scope.processing_timer(scope.open.end)
        return CONTINUE

    def on_processing_time(self, time: int, scope: Scope) -> int:
        return FIRE if time == scope.open.end else CONTINUE

    def on_merge(self, scope: Scope) -> None:
        scope.processing_timer(scope.open.end)

    def clear(self, scope: Scope) -> None:
        scope.delete_processing_timer(scope.open.end)


class _Count(_Quiet):
    """Fires after every so many rows."""

    def __init__(self, cell: WindowCell, rows: int) -> None:
        self._cell, self._rows = cell, rows

    def on_row(self, row: Any, scope: Scope) -> int:
        count = (self._cell.load() or 0) + 1
        is_full = count >= self._rows
        self._cell.store(None if is_full else count)
        return FIRE if is_full else CONTINUE

    def on_merge(self, scope: Scope) -> None:
        self._cell.store(sum(_held(self._cell, scope.merging)) or None)

    def clear(self, scope: Scope) -> None:
        self._cell.store(None)


class _EveryProcessing(_Quiet):
    """Fires at the next multiple of an interval of the clock behind a row, and when the window ends."""

    def __init__(self, cell: WindowCell, interval: int) -> None:
        self._cell, self._interval = cell, interval

    def on_row(self, row: Any, scope: Scope) -> int:
        self._set_end(scope)
        if self._cell.load() is None:
            self._set((scope.now // self._interval + 1) * self._interval, scope)
        return CONTINUE

    def _set_end(self, scope: Scope) -> None:
        if scope.is_processing_timed:
            scope.processing_timer(scope.open.end)
        elif scope.is_event_timed and scope.open.last > scope.watermark:
            scope.event_timer(scope.open.last)

    def _set(self, at: int, scope: Scope) -> None:
        if not scope.is_processing_timed or at < scope.open.end:
            self._cell.store(at)
            scope.processing_timer(at)

    def on_event_time(self, time: int, scope: Scope) -> int:
        if not scope.is_event_timed or time != scope.open.last:
            return CONTINUE
        self.clear(scope)
        return FIRE

    def on_processing_time(self, time: int, scope: Scope) -> int:
        is_end = scope.is_processing_timed and time == scope.open.end
        if time != self._cell.load() and not is_end:
            return CONTINUE
        self.clear(scope)
        return FIRE

    def on_merge(self, scope: Scope) -> None:
        self._set_end(scope)
        if times := _held(self._cell, scope.merging):
            self._set(min(times), scope)

    def clear(self, scope: Scope) -> None:
        if (at := self._cell.load()) is not None:
            scope.delete_processing_timer(at)
            self._cell.store(None)


class _EveryEvent(_Quiet):
    """Fires when the watermark has passed a multiple of an interval behind a row, at the end, and for late rows."""

    def __init__(self, cell: WindowCell, interval: int) -> None:
        self._cell, self._interval = cell, interval

    def on_row(self, row: Any, scope: Scope) -> int:
        if scope.is_event_timed:
            if scope.open.last <= scope.watermark:
                return FIRE
            scope.event_timer(scope.open.last)
        assert scope.timestamp is not None, "a step with this trigger has event time"
        from_then = max(scope.timestamp, scope.watermark + 1)
        self._set((from_then // self._interval + 1) * self._interval - 1, scope)
        return CONTINUE

    def _set(self, at: int, scope: Scope) -> None:
        """The earliest instant counts; the end of the window is one in any case."""
        held = self._cell.load()
        is_inside = not scope.is_event_timed or at < scope.open.last
        if is_inside and (held is None or at < held):
            self.clear(scope)
            self._cell.store(at)
            scope.event_timer(at)

    def on_event_time(self, time: int, scope: Scope) -> int:
        if time == self._cell.load():
            self._cell.store(None)
            return FIRE
        return FIRE if scope.is_event_timed and time == scope.open.last else CONTINUE

    def on_merge(self, scope: Scope) -> None:
        if scope.is_event_timed and scope.open.last > scope.watermark:
            scope.event_timer(scope.open.last)
        for at in _held(self._cell, scope.merging):
            self._set(at, scope)

    def clear(self, scope: Scope) -> None:
        if (at := self._cell.load()) is not None:
            scope.delete_event_timer(at)
            self._cell.store(None)


class _Purging:
    """Forgets the rows whenever the inner trigger fires."""

    def __init__(self, inner: Asked) -> None:
        self._inner = inner

    def on_row(self, row: Any, scope: Scope) -> int:
        return _purged(self._inner.on_row(row, scope))

    def on_event_time(self, time: int, scope: Scope) -> int:
        return _purged(self._inner.on_event_time(time, scope))

    def on_processing_time(self, time: int, scope: Scope) -> int:
        return _purged(self._inner.on_processing_time(time, scope))

    def on_merge(self, scope: Scope) -> None:
        self._inner.on_merge(scope)

    def clear(self, scope: Scope) -> None:
        self._inner.clear(scope)


class _Custom:
    """A trigger of the user; a copy serves each epoch, with its states bound to the open window."""

    def __init__(self, spec: TriggerSpec, scope: Scope, step: str, slot: int) -> None:
        assert spec.function is not None, "a trigger of the user has a function"
        self._step, self._trigger = step, copy.copy(spec.function.target)
        self._cells = [WindowCell(scope, "trigger", slot + place) for place in range(len(spec.states))]
        declared = states_of(self._trigger)
        for state, cell in zip(spec.states, self._cells, strict=True):
            setattr(self._trigger, state.name, declared[state.name].bound_to(cell))

    def on_row(self, row: Any, scope: Scope) -> int:
        return self._answer("on_row", row, scope)

    def on_event_time(self, time: int, scope: Scope) -> int:
        return self._answer("on_event_time", time, scope)

    def on_processing_time(self, time: int, scope: Scope) -> int:
        return self._answer("on_processing_time", time, scope)

    def on_merge(self, scope: Scope) -> None:
        try:
            self._trigger.on_merge(scope.window, scope)
        except Exception as problem:
            raise failure(self._step, {"key": scope.key}, problem) from problem

    def clear(self, scope: Scope) -> None:
        """Its timers stay: it is asked again only while it rules."""
        for cell in self._cells:
            cell.store(None)

    def _answer(self, method: str, about: Any, scope: Scope) -> int:
        try:
            answer = getattr(self._trigger, method)(about, scope.window, scope)
        except Exception as problem:
            raise failure(self._step, about if method == "on_row" else {"key": scope.key}, problem) from problem
        if not isinstance(answer, TriggerResult):
            msg = f"{type(self._trigger).__name__}.{method} answered something else than a trigger result"
            raise StepFailed(
                msg,
                code="STEP-131",
                step=self._step,
                found=repr(answer),
                hint="return ms.TriggerResult.CONTINUE or FIRE",
            )
        return int(answer)


def _purged(answer: int) -> int:
    return answer | PURGE if answer & FIRE else answer


def _held(cell: WindowCell, windows: list[AnyWindow]) -> list[int]:
    return [content for content in map(cell.content_of, windows) if content is not None]
