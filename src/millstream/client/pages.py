"""Lists that come in pages, as one iterator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from millstream.client.transport import Query, Transport, decoded

Listed = TypeVar("Listed")
_MOST_PAGES = 100_000


class _RawPage(msgspec.Struct):
    items: list[msgspec.Raw]
    next: str | None = None


def paged(transport: Transport, path: str, kind: type[Listed], query: Query, *, page: int = 100) -> Iterator[Listed]:
    """Every item, page after page; the next page is asked for when it is needed."""
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        answer = transport.send("GET", path, query={**query, "limit": page, "cursor": cursor})
        read = decoded(answer, _RawPage)
        for item in read.items:
            yield msgspec.json.decode(item, type=kind)
        cursor = read.next
        if cursor is None:
            return


def plain(**values: Any) -> dict[str, Any]:
    """A body without what was not said."""
    return {name: value for name, value in values.items() if value is not None}
