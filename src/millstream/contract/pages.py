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
