"""The calls of one epoch: trigger and function at work, firings, and what they emit."""

from __future__ import annotations

from millstream.graph.operations.window import Window
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.output import RowOutput
from millstream.runtime.operators.window.triggered.contents import TriggeredContents
from millstream.runtime.operators.window.triggered.functions import BoundFunction
from millstream.runtime.operators.window.triggered.running_trigger import FIRE, PURGE
from millstream.runtime.operators.window.triggered.triggers import running_trigger, trigger_spec, trigger_types
from millstream.runtime.operators.window.triggered.windows import AnyWindow, OpenWindow, Scope


class WindowCalls:
    """The calls of one epoch: trigger and function at work, and what they emit."""

    def __init__(self, node: StreamNode, contents: TriggeredContents, work: EpochWork) -> None:
        assert isinstance(node.operation, Window)
        operation = node.operation
        self.contents, self.operation = contents, operation
        counts = work.ledger.count(node.id)
        bad = work.ledger.bad_records(node.id, None)
        sides = dict(operation.outputs)
        made = {
            name: RowOutput(name, schema, bad, counts, work.emit)
            for name, schema in node.outputs.items()
            if name == MAIN or name in sides
        }
        self._outputs, self._main = list(made.values()), made[MAIN]
        self.scope = Scope(node.id, operation.window, work.times.now, {n: made[n] for n in sides})
        spec = trigger_spec(operation)
        self.trigger = running_trigger(spec, self.scope, node.id)
        self._width = len(trigger_types(spec))
        self.function = BoundFunction(operation, self.scope, node.id)
        self._clears = operation.accumulation == "discarding" and operation.lateness == 0
        is_count = operation.window.kind == "count"
        self.ends_when_fired = is_count and operation.window.rows == operation.window.every_rows

    def opened(self, start: int, end: int) -> AnyWindow:
        """A window without rows."""
        return OpenWindow(
            start=start,
            end=end,
            content=None,
            newest=None,
            pane=0,
            is_on_time=False,
            trigger=[None] * self._width,
            event_timers=[],
            processing_timers=[],
            state=[None] * self.function.width,
        )

    def obey(self, answer: int) -> None:
        """Do what the trigger answered about the open window."""
        window = self.scope.open
        is_fired = bool(answer & FIRE) and window.content is not None
        if is_fired:
            self._fire(window)
        if answer & PURGE or (is_fired and self._clears):
            window.content = None

    def _fire(self, window: AnyWindow) -> None:
        shown = self.contents.shown(window.content, self.scope)
        if shown is not None:
            self.scope.next_pane()
            time = self.scope.result_time
            for row in self.contents.result(shown, self.scope, self.function.process):
                self._main.add(row, time)
        window.content = self.contents.left(window.content, self.scope)

    def advance(self) -> None:
        """The watermark has moved."""
        for output in self._outputs:
            output.advance()

    def flush(self) -> None:
        """Hand on what is held."""
        for output in self._outputs:
            output.flush()
