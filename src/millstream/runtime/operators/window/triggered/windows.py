"""Open windows as they are stored, and where user code and triggers stand while they are called: in a scope."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from millstream.api.functions.process import TimeWindow
from millstream.api.functions.window import GlobalWindow, PaneInfo, PaneTiming
from millstream.errors import StepFailed
from millstream.graph.operations.window import Window
from millstream.graph.windows.window import WindowSpec
from millstream.model.time import MAX_TIME, MIN_TIME, timer_time
from millstream.runtime.operators.output import RowOutput
from millstream.state.entries import Entry

C = TypeVar("C")
T = TypeVar("T")
S = TypeVar("S")
ALWAYS = (MIN_TIME, MAX_TIME + 1)
"""The bounds of windows that have none: their last instant is the end of time."""


class OpenWindow(msgspec.Struct, Generic[C, T, S], array_like=True, eq=False):
    """One window of a key. Its timers are those of its trigger; when it is forgotten follows from its bounds."""

    start: int
    end: int
    content: C | None
    newest: int | None
    """The newest event time of its rows."""
    pane: int
    """How often it has fired."""
    is_on_time: bool
    """Whether it has fired at or after its last instant."""
    trigger: T
    event_timers: list[int]
    processing_timers: list[int]
    state: S

    @property
    def last(self) -> int:
        """The last instant inside the window."""
        return self.end - 1


AnyWindow = OpenWindow[Any, Any, Any]


class Scope:
    """The window that is asked about, its key and the times; what triggers and window functions see as their context."""

    def __init__(self, step: str, window: WindowSpec, now: int, outputs: dict[str, RowOutput]) -> None:
        self._step, self._outputs = step, outputs
        self._has_bounds = window.has_bounds
        self.is_event_timed = window.is_event_timed
        """Whether the window ends by the watermark."""
        self.is_processing_timed = ends_by_clock(window)
        """Whether the window ends by the clock."""
        self.now, self.watermark = now, MIN_TIME
        self.clock = now
        """How far processing time counts as passed: the end of a window in the terminal epoch."""
        self.timestamp: int | None = None
        self.entry: Entry
        self.open: AnyWindow
        self.pane: PaneInfo
        self.merging: list[AnyWindow] = []

    @property
    def key(self) -> tuple[Any, ...]:
        """The current key."""
        return self.entry.key

    @property
    def window(self) -> Any:
        """The window as user code sees it."""
        return TimeWindow(self.open.start, self.open.end) if self._has_bounds else GlobalWindow()

    @property
    def is_over(self) -> bool:
        """Whether the time that the window goes by has reached its last instant."""
        return self.open.last <= (self.clock if self.is_processing_timed else self.watermark)

    @property
    def event_now(self) -> int:
        """The event time that state of the key expires by."""
        return self.watermark if self.timestamp is None else max(self.timestamp, self.watermark)

    @property
    def result_time(self) -> int | None:
        """The event time of what the window gives: its last instant, or that of its newest row."""
        return self.open.last if self.is_event_timed else self.open.newest

    def next_pane(self) -> PaneInfo:
        """Number the firing that comes now; index and timing are state of the window."""
        window = self.open
        timing = PaneTiming.EARLY if not self.is_over else PaneTiming.LATE if window.is_on_time else PaneTiming.ON_TIME
        self.pane = PaneInfo(window.pane, timing)
        window.pane += 1
        window.is_on_time = window.is_on_time or self.is_over
        return self.pane

    def event_timer(self, at: int) -> None:
        """Ask the trigger again when the watermark reaches an instant."""
        _add(self.open.event_timers, timer_time(at, step=self._step))

    def processing_timer(self, at: int) -> None:
        """Ask the trigger again when the clock reaches an instant."""
        _add(self.open.processing_timers, timer_time(at, step=self._step))

    def delete_event_timer(self, at: int) -> None:
        """Forget an event-time timer."""
        _discard(self.open.event_timers, at)

    def delete_processing_timer(self, at: int) -> None:
        """Forget a processing-time timer."""
        _discard(self.open.processing_timers, at)

    def output(self, name: str, row: Any) -> None:
        """Emit a row to a side output."""
        if name not in self._outputs:
            msg = f"no side output {name!r}"
            raise StepFailed(
                msg, step=self._step, known=self._outputs, hint="declare it with process(..., outputs={...})"
            )
        self._outputs[name].add(row, self.result_time)

    def merged(self, state: Any) -> list[Any]:
        """What a window state held in the windows that become one, the earliest first."""
        cell: WindowCell = state._current()
        return [content for content in map(cell.content_of, self.merging) if content is not None]


class WindowCell:
    """One state of the open window, or of its trigger."""

    __slots__ = ("_part", "_place", "_scope")

    def __init__(self, scope: Scope, part: str, place: int) -> None:
        self._scope, self._part, self._place = scope, part, place

    def content_of(self, window: AnyWindow) -> Any:
        """The content in some window."""
        return getattr(window, self._part)[self._place]

    def load(self) -> Any:
        """The content for the open window."""
        return self.content_of(self._scope.open)

    def store(self, content: Any) -> None:
        """Replace the content."""
        slots = getattr(self._scope.open, self._part)
        if type(slots) is tuple:
            # As it was decoded.
            slots = list(slots)
            setattr(self._scope.open, self._part, slots)
        slots[self._place] = content


class KeyCell:
    """One state of the current key."""

    __slots__ = ("_place", "_scope")

    def __init__(self, scope: Scope, place: int) -> None:
        self._scope, self._place = scope, place

    def load(self) -> Any:
        """The content for the key."""
        return self._scope.entry.slots[self._place]

    def store(self, content: Any) -> None:
        """Replace the content."""
        self._scope.entry.slots[self._place] = content
        self._scope.entry.is_dirty = True


def _add(timers: list[int], at: int) -> None:
    if at not in timers:
        timers.append(at)


def _discard(timers: list[int], at: int) -> None:
    if at in timers:
        timers.remove(at)


def settle(entry: Entry, windows: list[AnyWindow], operation: Window) -> None:
    """Write windows to an entry, with the times at which it is due: timers of triggers, and the ends of windows."""
    entry.slots[-1] = windows or None
    entry.event_timers = {at for window in windows for at in window.event_timers}
    entry.processing_timers = {at for window in windows for at in window.processing_timers}
    ends = {end_of(window, operation) for window in windows}
    if ends_by_clock(operation.window):
        entry.processing_timers |= ends
    else:
        entry.event_timers |= ends
    entry.is_dirty = True


def ends_by_clock(window: WindowSpec) -> bool:
    """Whether windows are forgotten by the clock, and not by the watermark; those without bounds at the end of time."""
    return window.has_bounds and not window.is_event_timed


def end_of(window: AnyWindow, operation: Window) -> int:
    """When a window is forgotten."""
    return window.end if ends_by_clock(operation.window) else min(window.last + operation.lateness, MAX_TIME)
