"""A store that lives as long as its process; for tests and for runs without a checkpoint directory."""

from __future__ import annotations


class MemoryStore:
    """Objects in a dict."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    def create(self, name: str, content: bytes) -> bool:
        """Keep an object under a new name."""
        if name in self._objects:
            return False
        self._objects[name] = content
        return True

    def read(self, name: str) -> bytes | None:
        """An object, or `None`."""
        return self._objects.get(name)

    def names(self, prefix: str) -> list[str]:
        """Names that start with a prefix, sorted."""
        return sorted(name for name in self._objects if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        self._objects.pop(name, None)
