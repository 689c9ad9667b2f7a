"""What one action sees of a memory: its own writes at once, those of others when they hand them over."""

from __future__ import annotations

from typing import Any

from millstream.agents.memory.tree import MemoryTree, Segments

Write = tuple[str, Segments, Any]
"""An operation, its place and its value, to be done again on another tree."""


class SharedMemory:
    """The memory of a run, changed at once: for actions that nothing can interrupt."""

    __slots__ = ("tree",)

    def __init__(self, tree: MemoryTree) -> None:
        self.tree = tree

    def write(self, write: Write) -> Any:
        """Do an operation."""
        return done(self.tree, write)

    def hand_over(self) -> None:
        """Nothing is held back."""


class PrivateMemory:
    """The memory of a run with the writes of an action that waits in between; others see them when it hands them over."""

    __slots__ = ("_held", "_seen", "_shared", "_view")

    def __init__(self, shared: MemoryTree) -> None:
        self._shared, self._held = shared, list[Write]()
        self._view: MemoryTree | None = None
        self._seen = -1

    @property
    def tree(self) -> MemoryTree:
        """The run's memory, with what this action has written."""
        if not self._held:
            return self._shared
        if self._view is None or self._seen != self._shared.version:
            self._view, self._seen = self._shared.copied(), self._shared.version
            for each in self._held:
                done(self._view, each)
        return self._view

    def write(self, write: Write) -> Any:
        """Do an operation for this action alone."""
        view = self.tree if self._held else self._shared.copied()
        answer = done(view, write)
        self._view, self._seen = view, self._shared.version
        self._held.append(write)
        return answer

    def hand_over(self) -> None:
        """From now on the others see what was written."""
        for each in self._held:
            done(self._shared, each)
        self._held.clear()
        self._view = None


ActionMemory = SharedMemory | PrivateMemory


def done(tree: MemoryTree, write: Write) -> Any:
    """Do an operation on a tree: the operation itself, not a guess from the value."""
    kind, path, value = write
    match kind:
        case "set":
            tree.set(path, value)
        case "new_object":
            tree.new_object(path, overwrite=value)
        case "delete":
            return tree.delete(path)
        case "append":
            tree.append(path, value)
        case "increment":
            return tree.increment(path, value)
        case _:
            tree.clear(path)
    return None
