"""Where an engine keeps the pages of one subtask."""

from __future__ import annotations

from typing import Protocol


class PageStore(Protocol):
    """Where pages are kept between epochs: Spark's state store, or a dict."""

    def get(self, key: str) -> bytes | None:
        """A page, or `None`."""
        ...

    def put(self, key: str, content: bytes) -> None:
        """Write a page."""
        ...

    def delete(self, key: str) -> None:
        """Remove a page."""
        ...


class WeighedPages:
    """The pages of one subtask in one epoch, with the size of those that it writes."""

    def __init__(self, store: PageStore) -> None:
        self._store, self.get, self.delete = store, store.get, store.delete
        self.written = 0
        """Bytes of pages, those that were written twice counted twice."""

    def put(self, key: str, content: bytes) -> None:
        """Write a page."""
        self.written += len(content)
        self._store.put(key, content)
