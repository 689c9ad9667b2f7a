"""`MemoryObject` and `MemoryRef`: memory as actions use it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from millstream.agents.memory.tree import MISSING, Branch, Path, Segments, segments, value_copy
from millstream.agents.memory.view import ActionMemory

if TYPE_CHECKING:
    from millstream.agents.runs.context import RunnerContext


class MemoryType(enum.Enum):
    """Which memory."""

    SENSORY = "sensory"
    """Of one run; gone when it ends."""
    SHORT_TERM = "short_term"
    """Of the key, over all of its runs."""


class MemoryRef(BaseModel):
    """A place in memory, as a value that events may carry."""

    model_config = ConfigDict(frozen=True)

    memory_type: MemoryType = MemoryType.SHORT_TERM
    path: str

    @staticmethod
    def create(memory_type: MemoryType, path: str) -> MemoryRef:
        """A reference to a place."""
        return MemoryRef(memory_type=memory_type, path=path)

    def resolve(self, ctx: RunnerContext) -> Any:
        """What stands there now, or `None`."""
        is_sensory = self.memory_type is MemoryType.SENSORY
        return (ctx.sensory_memory if is_sensory else ctx.short_term_memory).get(self.path)


class MemoryObject:
    """An object in memory: values and further objects by name. What is read is a copy; what is written is one too."""

    __slots__ = ("_at", "_kind", "_memory")

    def __init__(self, memory: ActionMemory, kind: MemoryType, at: Segments = ()) -> None:
        self._memory, self._kind, self._at = memory, kind, at

    def get(self, path_or_ref: Path | MemoryRef | dict[str, Any], default: Any = None) -> Any:
        """The value or object at a place, or the default."""
        path = self._way(path_or_ref)
        found = self._memory.tree.find(path)
        if found is MISSING:
            return default
        if type(found) is Branch:
            return MemoryObject(self._memory, self._kind, path)
        return value_copy(found, path)

    def set(self, path: Path, value: Any) -> MemoryRef:
        """Remember a value; objects on the way are made.

        Raises:
            TypeError: memory cannot hold the value.
            ValueError: an object stands there, or a value on the way.
        """
        way = self._at + segments(path)
        self._memory.write(("set", way, value_copy(value, way)))
        return self._ref(way)

    def new_object(self, path: Path, *, overwrite: bool = False) -> MemoryObject:
        """An object at a place: the one that is there, or a new one; with `overwrite` an empty one in any case."""
        way = self._at + segments(path)
        self._memory.write(("new_object", way, overwrite))
        return MemoryObject(self._memory, self._kind, way)

    def is_exist(self, path: Path) -> bool:
        """Whether something stands there."""
        return self._memory.tree.find(self._at + segments(path)) is not MISSING

    def get_field_names(self) -> list[str]:
        """The names below this object."""
        found = self._memory.tree.find(self._at)
        return list(found) if type(found) is Branch else []

    def get_fields(self) -> dict[str, Any]:
        """What stands below this object, by name."""
        return {name: self.get([name]) for name in self.get_field_names()}

    def delete(self, path: Path) -> bool:
        """Forget what stands there; whether there was something."""
        return bool(self._memory.write(("delete", self._at + segments(path), None)))

    def clear(self) -> None:
        """Forget everything below this object."""
        self._memory.write(("clear", self._at, None))

    def append(self, path: Path, *values: Any) -> MemoryRef:
        """Put values at the end of a list, which is made if there is none."""
        way = self._at + segments(path)
        self._memory.write(("append", way, value_copy(list(values), way)))
        return self._ref(way)

    def increment(self, path: Path, by: float = 1) -> int | float:
        """Add to a number, which is 0 if there is none; gives the sum."""
        way = self._at + segments(path)
        total: int | float = self._memory.write(("increment", way, value_copy(by, way)))
        return total

    def _way(self, path_or_ref: Path | MemoryRef | dict[str, Any]) -> Segments:
        if isinstance(path_or_ref, dict):
            path_or_ref = MemoryRef.model_validate(path_or_ref)
        if isinstance(path_or_ref, MemoryRef):
            return segments(path_or_ref.path)
        return self._at + segments(path_or_ref)

    def _ref(self, way: Segments) -> MemoryRef:
        return MemoryRef(memory_type=self._kind, path=".".join(way))
