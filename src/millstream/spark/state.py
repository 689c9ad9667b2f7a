"""Pages in Spark's state store: one `MapState` per level holds the pages of all its steps."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

STATE_NAME = "pages"
KEY_SCHEMA = StructType([StructField("page", StringType())])
VALUE_SCHEMA = StructType([StructField("content", BinaryType())])
_STAMP = "stamp"


class MapStatePages:
    """Backend `rocksdb`: every page is read from the state store when it is touched."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, key: str) -> bytes | None:
        """A page, or `None`."""
        found = self._state.getValue((key,))
        return None if found is None else bytes(found[0])

    def put(self, key: str, content: bytes) -> None:
        """Write a page."""
        self._state.updateValue((key,), (content,))

    def delete(self, key: str) -> None:
        """Remove a page."""
        self._state.removeKey((key,))

    def close(self) -> None:
        """Nothing is held."""


_kept: dict[str, tuple[bytes, dict[str, bytes]]] = {}
"""Per (query, level, subtask): the stamp of the epoch this worker last ran, and the pages it knew then."""


class CachedPages:
    """Backend `memory`: pages stay in the worker between epochs, as long as the stored stamp proves them current.

    Workers are not bound to subtasks. Every epoch writes a new random stamp beside its pages; a worker whose copy has
    another stamp (another worker ran the subtask since, or the epoch was rolled back) drops it and reads from the store.
    """

    def __init__(self, state: Any, owner: str) -> None:
        self._store, self._owner = MapStatePages(state), owner
        stamp = self._store.get(_STAMP)
        kept = _kept.pop(owner, None)
        self._pages = kept[1] if kept is not None and kept[0] == stamp else {}

    def get(self, key: str) -> bytes | None:
        """A page, from memory if it is there."""
        if key not in self._pages:
            found = self._store.get(key)
            if found is None:
                return None
            self._pages[key] = found
        return self._pages[key]

    def put(self, key: str, content: bytes) -> None:
        """Write a page through."""
        self._pages[key] = content
        self._store.put(key, content)

    def delete(self, key: str) -> None:
        """Remove a page."""
        self._pages.pop(key, None)
        self._store.delete(key)

    def close(self) -> None:
        """Stamp this epoch; the pages stay here under that stamp."""
        stamp = uuid.uuid4().bytes
        self._store.put(_STAMP, stamp)
        _kept[self._owner] = (stamp, self._pages)
