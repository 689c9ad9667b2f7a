"""The open windows of one key while rows are added to them: found by their end, whatever their number."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import msgspec

from millstream.graph.windows.window import WindowSpec
from millstream.runtime.operators.window.grid import grid_of

Assigner = Callable[[int], list[tuple[int, int]]]
"""Gives the windows that an instant belongs to, the one that ends first in front."""


_NOTHING = msgspec.Raw()


def assigner_of(window: WindowSpec) -> Assigner:
    """The windows of an instant; a session starts as the gap behind it."""
    if window.kind == "session":
        return lambda time: [(time, time + window.gap)]
    return grid_of(window).windows_at


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
    """Windows in the order of their ends, of which no two are the same: cumulative windows share their start.

    The content of a window is decoded when it is first asked for, and encoded again when all rows are added.
    """

    def __init__(self, held: list[HeldWindow] | None, decode: Callable[[msgspec.Raw], Any]) -> None:
        self.windows: list[HeldWindow] = list(held or ())
        self.opened: list[HeldWindow] = []
        """Those that were put in since."""
        self._decode, self._live = decode, dict[int, Any]()
        self._ends: list[int] = [window.end for window in self.windows]
        in_order = sorted(self._ends)
        if in_order != self._ends:
            self.windows.sort(key=lambda window: window.end)
            self._ends = in_order

    def with_end(self, end: int) -> HeldWindow | None:
        """The window with this end."""
        place = bisect.bisect_left(self._ends, end)
        is_there = place < len(self._ends) and self._ends[place] == end
        return self.windows[place] if is_there else None

    def touched_by(self, start: int, end: int) -> list[HeldWindow]:
        """The sessions that an interval touches; since sessions lie apart, they stand side by side."""
        first = behind = bisect.bisect_left(self._ends, start)
        while behind < len(self.windows) and self.windows[behind].start <= end:
            behind += 1
        return self.windows[first:behind]

    def put(self, start: int, end: int, content: Any, instead_of: list[HeldWindow] | None = None) -> HeldWindow:
        """Open a window in its place, instead of those that it was made of."""
        gone = instead_of or []
        place = bisect.bisect_left(self._ends, gone[0].end if gone else end)
        for window in gone:
            self._live.pop(window.end, None)
        made = HeldWindow(start=start, end=end, content=_NOTHING)
        self.windows[place : place + len(gone)] = [made]
        self._ends[place : place + len(gone)] = [end]
        self.opened.append(made)
        self._live[end] = content
        return made

    def content_of(self, window: HeldWindow) -> Any:
        """What a window holds; it may be changed in place."""
        content = self._live.get(window.end)
        if content is None:
            content = self._live[window.end] = self._decode(window.content)
        return content

    def set_content(self, window: HeldWindow, content: Any) -> None:
        """Let a window hold something else."""
        self._live[window.end] = content

    def encode(self, encoded: Callable[[Any], msgspec.Raw]) -> None:
        """Write what was decoded back to the windows."""
        for end, content in self._live.items():
            self.windows[bisect.bisect_left(self._ends, end)].content = encoded(content)
        self._live = {}
