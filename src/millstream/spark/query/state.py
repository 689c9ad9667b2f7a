"""Pages in Spark's state store: one `MapState` per level holds the pages of all its steps."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

STATE_NAME = "pages"
KEY_SCHEMA = StructType([StructField("page", StringType())])
VALUE_SCHEMA = StructType([StructField("content", BinaryType())])


class MapStatePages:
    """The pages of one subtask: every one is read from the state store when it is asked for."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, key: str) -> bytes | None:
        """A page, or `None`."""
        stored = self._state.getValue((key,))
        return None if stored is None else bytes(stored[0])

    def put(self, key: str, content: bytes) -> None:
        """Write a page."""
        self._state.updateValue((key,), (content,))

    def delete(self, key: str) -> None:
        """Remove a page."""
        self._state.removeKey((key,))
