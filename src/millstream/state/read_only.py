"""Pages of stored state that may be looked at and not changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millstream.errors import CheckpointRefused


class ReadOnlyPages:
    """The pages of one subtask, as a store that can only be read."""

    def __init__(self, pages: Mapping[str, bytes]) -> None:
        self._pages = pages

    def get(self, key: str) -> bytes | None:
        """A page, or `None`."""
        return self._pages.get(key)

    def put(self, key: str, content: bytes) -> None:
        """Refused: state of a checkpoint is changed by its job alone."""
        raise _read_only(key)

    def delete(self, key: str) -> None:
        """Refused, as `put` is."""
        raise _read_only(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pages)

    def __len__(self) -> int:
        return len(self._pages)


def _read_only(key: str) -> CheckpointRefused:
    msg = f"page {key!r} belongs to a checkpoint that is only read"
    return CheckpointRefused(msg, code="CKPT-055", hint="change state through a savepoint and a restore")
