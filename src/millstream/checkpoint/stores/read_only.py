"""A store that is only looked at: whatever would change it is refused."""

from __future__ import annotations

from typing import Never

from millstream.checkpoint.stores.base import ManifestStore
from millstream.errors import CheckpointRefused


class ReadOnlyStore:
    """Another store without its writes."""

    def __init__(self, store: ManifestStore) -> None:
        self._store = store

    def __repr__(self) -> str:
        return f"ReadOnlyStore({self._store!r})"

    def create(self, name: str, content: bytes) -> bool:
        """Refused."""
        self._refuse("make", name)

    def read(self, name: str) -> bytes | None:
        """An object, or `None`."""
        return self._store.read(name)

    def names(self, prefix: str) -> list[str]:
        """Names that start with a prefix, sorted."""
        return self._store.names(prefix)

    def swap(self, name: str, expected: bytes | None, content: bytes) -> bool:
        """Refused."""
        self._refuse("replace", name)

    def delete(self, name: str) -> None:
        """Refused."""
        self._refuse("remove", name)

    def close(self) -> None:
        """Give back connections, if there are any."""
        self._store.close()

    def _refuse(self, action: str, name: str) -> Never:
        msg = f"the checkpoint is only read, and something was about to {action} {name!r} in it"
        raise CheckpointRefused(msg, code="CKPT-064", hint="report this: a command that only looks must change nothing")
