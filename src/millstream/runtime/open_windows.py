"""The open windows of one key while rows are added to them: found by their start, whatever their number."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import msgspec

from millstream.graph.window import WindowSpec
from millstream.runtime.window_grid import grid_of

Assigner = Callable[[int], list[tuple[int, int]]]
"""Gives the windows that an instant belongs to, the oldest first."""


_NOTHING = msgspec.Raw()


def assigner_of(window: WindowSpec) -> Assigner:
    """The windows of an instant; a session starts as the gap behind it."""
    if window.kind == "session":
        return lambda time: [(time, time + window.gap)]
    grid = grid_of(window)

    def windows_at(time: int) -> list[tuple[int, int]]:
        newest = grid.start_of(time)
        starts = [grid.later(newest, -number) for number in reversed(range(grid.span))]
        return [(start, grid.later(start, grid.span)) for start in starts]

    return windows_at


class HeldWindow(msgspec.Struct, array_like=True, eq=False, gc=False):
    """A window as it is stored, its content as bytes."""

    start: int
    end: int
    content: msgspec.Raw

    @property
    def last(self) -> int:
        """The last instant inside the window."""
        return self.end - 1


class OpenWindows:
    """Windows in the order of their starts, which is that of their ends too: they are equally long, or lie apart.

    The content of a window is decoded when it is first asked for, and encoded again when all rows are added.
    """

    def __init__(self, held: list[HeldWindow] | None, decode: Callable[[msgspec.Raw], Any]) -> None:
        self.windows: list[HeldWindow] = list(held or ())
        self.opened: list[HeldWindow] = []
        """Those that were put in since."""
        self._decode, self._live = decode, dict[int, Any]()
        self._starts: list[int] = [window.start for window in self.windows]
        in_order = sorted(self._starts)
        if in_order != self._starts:
            self.windows.sort(key=lambda window: window.start)
            self._starts = in_order

    def at(self, start: int) -> HeldWindow | None:
        """The window with this start."""
        place = bisect.bisect_left(self._starts, start)
        is_there = place < len(self._starts) and self._starts[place] == start
        return self.windows[place] if is_there else None

    def touched_by(self, start: int, end: int) -> list[HeldWindow]:
        """The sessions that an interval touches; since sessions lie apart, they stand side by side."""
        behind = first = bisect.bisect_right(self._starts, end)
        while first and self.windows[first - 1].end >= start:
            first -= 1
        return self.windows[first:behind]

    def put(self, start: int, end: int, content: Any, instead_of: int = 0) -> HeldWindow:
        """Open a window in its place, instead of so many that it was made of."""
        place = bisect.bisect_left(self._starts, start)
        for start_of_other in self._starts[place : place + instead_of]:
            self._live.pop(start_of_other, None)
        window = HeldWindow(start=start, end=end, content=_NOTHING)
        self.windows[place : place + instead_of] = [window]
        self._starts[place : place + instead_of] = [start]
        self.opened.append(window)
        self._live[start] = content
        return window

    def content_of(self, window: HeldWindow) -> Any:
        """What a window holds; it may be changed in place."""
        found = self._live.get(window.start)
        if found is None:
            found = self._live[window.start] = self._decode(window.content)
        return found

    def set_content(self, window: HeldWindow, content: Any) -> None:
        """Let a window hold something else."""
        self._live[window.start] = content

    def encode(self, encoded: Callable[[Any], msgspec.Raw]) -> None:
        """Write what was decoded back to the windows."""
        for start, content in self._live.items():
            self.windows[bisect.bisect_left(self._starts, start)].content = encoded(content)
        self._live = {}
