"""A store in a directory: temporary file, fsync, hard link as exclusive create, fsync of the directory."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


class LocalStore:
    """Objects as files. A crash leaves an object whole or absent; temporary files start with a dot."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root)
        self._root.mkdir(parents=True, exist_ok=True)

    def create(self, name: str, content: bytes) -> bool:
        """Publish a file under a new name, durably."""
        path = self._root / name
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            sync_directory(path.parent.parent)
        temporary = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}"
        try:
            write_synced(temporary, content)
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(path.parent)
        return True

    def read(self, name: str) -> bytes | None:
        """A file's content, or `None`."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, prefix: str) -> list[str]:
        """Names that start with a prefix, sorted."""
        folder = (self._root / prefix).parent if not prefix.endswith("/") else self._root / prefix
        if not folder.is_dir():
            return []
        found = (str(path.relative_to(self._root)) for path in folder.iterdir() if not path.name.startswith("."))
        return sorted(name for name in found if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._root / name).unlink(missing_ok=True)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the disk has the names in a directory."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
