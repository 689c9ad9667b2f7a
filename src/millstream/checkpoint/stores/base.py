"""The contract of manifest stores, and the names it allows."""

from __future__ import annotations

from typing import Protocol

from millstream.checkpoint.names import outside


class ManifestStore(Protocol):
    """Small named objects, each whole or absent. What `create` made never changes; what changes is changed by `swap` alone."""

    def create(self, name: str, content: bytes) -> bool:
        """Make an object durable; `False` when the name exists already (whatever its content)."""
        ...

    def read(self, name: str) -> bytes | None:
        """An object, or `None`."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Names that start with a prefix, sorted."""
        ...

    def swap(self, name: str, expected: bytes | None, content: bytes) -> bool:
        """Replace `expected` (`None`: nothing there) by `content`, durably; `False` when something else is there."""
        ...

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        ...

    def close(self) -> None:
        """Give back connections, if there are any."""
        ...


def checked_name(name: str) -> str:
    """A name that means the same in every store: relative, without `.` or `..`; names with a leading dot are the store's own."""
    if not is_listed(name) or "\0" in name:
        raise outside(name, of="an object", code="CKPT-061")
    return name


def is_listed(name: str) -> bool:
    """Whether a name belongs to an object and not to the store itself."""
    return all(part and not part.startswith(".") for part in name.split("/"))


def checked_prefix(prefix: str) -> str:
    """A prefix of names, which may end anywhere."""
    folder = folder_of(prefix)
    if (folder and not is_listed(folder)) or "\0" in prefix:
        raise outside(prefix, of="objects", code="CKPT-061")
    return prefix


def folder_of(prefix: str) -> str:
    """The folder that holds every name with a prefix."""
    return prefix.rpartition("/")[0]
