"""Triggers of the user."""

from __future__ import annotations

import copy
from typing import Any

from millstream.api.functions.state import states_of
from millstream.api.values.trigger import TriggerResult
from millstream.errors import StepFailed
from millstream.graph.windows.trigger import TriggerSpec
from millstream.runtime.bad_records import USER_PROBLEMS, failure
from millstream.runtime.operators.window.triggered.windows import Scope, WindowCell


class Custom:
    """A trigger of the user; a copy serves each epoch, with its states bound to the open window."""

    def __init__(self, spec: TriggerSpec, scope: Scope, step: str, first: int) -> None:
        assert spec.function is not None, "a trigger of the user has a function"
        self._step, self._trigger = step, copy.copy(spec.function.target)
        self._cells = [WindowCell(scope, "trigger", first + place) for place in range(len(spec.states))]
        declared = states_of(self._trigger)
        for state, cell in zip(spec.states, self._cells, strict=True):
            setattr(self._trigger, state.name, declared[state.name].bound_to(cell))

    def on_row(self, row: Any, scope: Scope) -> int:
        """A row was added."""
        return self._answer("on_row", row, scope)

    def on_event_time(self, time: int, scope: Scope) -> int:
        """The watermark has reached a timer."""
        return self._answer("on_event_time", time, scope)

    def on_processing_time(self, time: int, scope: Scope) -> int:
        """The clock has reached a timer."""
        return self._answer("on_processing_time", time, scope)

    def on_merge(self, scope: Scope) -> None:
        """Windows became the open one."""
        try:
            self._trigger.on_merge(scope.window, scope)
        except USER_PROBLEMS as problem:
            raise failure(self._step, {"key": scope.key}, problem) from problem

    def clear(self, scope: Scope) -> None:
        """Its timers stay: it is asked again only while it rules."""
        for cell in self._cells:
            cell.store(None)

    def _answer(self, method: str, about: Any, scope: Scope) -> int:
        try:
            answer = getattr(self._trigger, method)(about, scope.window, scope)
        except USER_PROBLEMS as problem:
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
