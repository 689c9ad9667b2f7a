"""A store that lives as long as its process; for tests and for runs without a checkpoint directory."""

from __future__ import annotations

import threading

from millstream.checkpoint.stores.base import checked_name, checked_prefix


class MemoryStore:
    """Objects in a dict."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def create(self, name: str, content: bytes) -> bool:
        """Keep an object under a new name."""
        return self.swap(name, None, content)

    def read(self, name: str) -> bytes | None:
        """An object, or `None`."""
        return self._objects.get(checked_name(name))

    def names(self, prefix: str) -> list[str]:
        """Names that start with a prefix, sorted."""
        checked_prefix(prefix)
        with self._lock:
            return sorted(name for name in self._objects if name.startswith(prefix))

    def swap(self, name: str, expected: bytes | None, content: bytes) -> bool:
        """Replace what is expected."""
        checked_name(name)
        with self._lock:
            if self._objects.get(name) != expected:
                return False
            self._objects[name] = content
            return True

    def close(self) -> None:
        """Nothing is open."""

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        checked_name(name)
        with self._lock:
            self._objects.pop(name, None)
