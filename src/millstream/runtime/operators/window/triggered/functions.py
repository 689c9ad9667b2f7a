"""Window functions at work: a copy serves each epoch, with states bound to the current key and the open window."""

from __future__ import annotations

import copy
from typing import Any

from millstream.api.functions.state import StateCell, states_of
from millstream.graph.operations.window import Window
from millstream.runtime.functions.calls import called
from millstream.runtime.operators.window.triggered.windows import KeyCell, Scope, WindowCell
from millstream.state.ttl import ExpiringCell


class BoundFunction:
    """The window function of a step; a plain function has neither state nor a context."""

    def __init__(self, operation: Window, scope: Scope, step: str) -> None:
        self._scope, self._step = scope, step
        self.width = len(operation.window_states)
        """How many states a window has."""
        self._function: Any = None
        self.process: Any = None if operation.process is None else operation.process.target
        if operation.is_stateful_function:
            self._function = self._bound(operation, self.process)
            self.process = self._function.process

    def _bound(self, operation: Window, function: Any) -> Any:
        bound, declared = copy.copy(function), states_of(function)
        for place, state in enumerate(operation.key_states):
            cell: StateCell = KeyCell(self._scope, place)
            if state.ttl is not None:
                cell = ExpiringCell(self._scope, place, state)
            setattr(bound, state.name, declared[state.name].bound_to(cell))
        for place, state in enumerate(operation.window_states):
            setattr(bound, state.name, declared[state.name].bound_to(WindowCell(self._scope, "state", place)))
        return bound

    def clear(self) -> None:
        """The open window is about to be forgotten."""
        if self._function is not None:
            called(self._step, {"key": self._scope.key}, self._function.clear, self._scope)

    def on_merge(self) -> None:
        """Sessions became the open window."""
        if self._function is not None:
            called(self._step, {"key": self._scope.key}, self._function.on_merge, self._scope.window, self._scope)
