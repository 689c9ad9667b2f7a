"""The contract of manifest stores."""

from __future__ import annotations

from typing import Protocol


class ManifestStore(Protocol):
    """Small named objects. A name is created once, whole or not at all, and never changes."""

    def create(self, name: str, content: bytes) -> bool:
        """Make an object durable; `False` when the name exists already (whatever its content)."""
        ...

    def read(self, name: str) -> bytes | None:
        """An object, or `None`."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Names that start with a prefix, sorted."""
        ...

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        ...
