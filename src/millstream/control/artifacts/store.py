"""Archives in a folder, each under its sha256: written beside it, looked at, and seen under its name only when it is whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, get_args

from millstream.control.artifacts.checks import check_archive, kind_of
from millstream.control.artifacts.limits import MOST_UPLOADED, ArtifactKind, ArtifactRefused
from millstream.control.refusals import UnknownName

_DIGEST = re.compile(r"[0-9a-f]{64}")
_INCOMING = "incoming"
_PIECE = 1 << 20
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Upload:
    """An archive that comes piece by piece; nothing of it stays unless the store keeps it before it is closed."""

    def __init__(self, path: Path, name: str, *, limit: int) -> None:
        self.name = name
        self.kind: ArtifactKind = kind_of(name)
        self.path = path
        self.size = 0
        self._limit = limit
        self._sum = hashlib.sha256()
        self._checked: str | None = None
        self._file = os.fdopen(os.open(path, _NEW, 0o600), "w+b")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)

    def write(self, piece: bytes) -> None:
        """Take what comes next.

        Raises:
            ArtifactRefused: (CTL-355) it is more than an archive may have.
        """
        self.size += len(piece)
        if self.size > self._limit:
            msg = "the archive is too large"
            hint = "leave out what the job does not need; install large libraries where the nodes run"
            raise ArtifactRefused(msg, code="CTL-355", known=f"at most {self._limit} bytes", hint=hint)
        self._sum.update(piece)
        self._file.write(piece)

    def finish(self) -> str:
        """Its sha256, once all of it is on disk and was found safe to unpack. It takes a while: no transaction should wait.

        Raises:
            ArtifactRefused: (CTL-350 to CTL-357) why it is not.
        """
        if self._checked is None:
            self._file.flush()
            os.fsync(self._file.fileno())
            check_archive(self._file, self.kind)
            self._checked = self._sum.hexdigest()
        return self._checked


class ArtifactStore:
    """The folder of archives of a service."""

    def __init__(self, root: str | Path, *, limit: int = MOST_UPLOADED) -> None:
        self.root = Path(root)
        self._limit = limit
        for folder in (self.root, self.root / _INCOMING):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def receive(self, name: str) -> Upload:
        """Begin to take an archive of that name, as a context that forgets it at its end."""
        return Upload(self.root / _INCOMING / secrets.token_hex(16), name, limit=self._limit)

    def keep(self, upload: Upload) -> str:
        """Show a finished upload under its sha256; one that is there already is the same, and of the kind it came as first."""
        sha256 = upload.finish()
        target = self._found(sha256) or self.root / f"{sha256}.{upload.kind}"
        beside = upload.path.with_suffix(".kept")
        # The upload keeps its own name, so that a transaction that is tried again finds it.
        os.link(upload.path, beside)
        beside.replace(target)
        # Of two names of one file, which a second try makes, neither replaces the other.
        beside.unlink(missing_ok=True)
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return sha256

    @contextlib.contextmanager
    def opened(self, sha256: str) -> Iterator[tuple[BinaryIO, ArtifactKind]]:
        """An archive to read, whose digest was compared just now, and its kind.

        Raises:
            UnknownName: (CTL-358) it is not here.
            ArtifactRefused: (CTL-359) what is stored was changed.
        """
        path = self._found(sha256)
        if path is None:
            raise unknown_artifact(sha256)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise unknown_artifact(sha256) from None
        with os.fdopen(handle, "rb") as file:
            if _sum_of(file) != sha256:
                msg = "a stored archive has other bytes than it had when it came"
                hint = "find out who writes to the folder of artifacts, and upload it again"
                raise ArtifactRefused(msg, code="CTL-359", found=sha256, hint=hint)
            file.seek(0)
            yield file, "wheel" if path.suffix == ".wheel" else "zip"

    def remove(self, sha256: str) -> None:
        """Forget an archive, whether or not it is there."""
        path = self._found(sha256)
        if path is not None:
            path.unlink(missing_ok=True)

    def kept(self) -> dict[str, float]:
        """Every archive, with the time it came, in seconds."""
        found = (path for path in self.root.iterdir() if _DIGEST.fullmatch(path.stem))
        return {path.stem: path.stat().st_mtime for path in found}

    def remove_unfinished(self, before: float) -> int:
        """Remove uploads that nobody writes to any more; says how many."""
        removed = 0
        for path in (self.root / _INCOMING).iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    path.unlink()
                    removed += 1
        return removed

    def _found(self, sha256: str) -> Path | None:
        """Never a path that somebody else chose."""
        if not isinstance(sha256, str) or not _DIGEST.fullmatch(sha256):
            raise unknown_artifact(sha256)
        paths = (self.root / f"{sha256}.{kind}" for kind in get_args(ArtifactKind))
        return next((path for path in paths if path.is_symlink() or path.exists()), None)


def unknown_artifact(sha256: object) -> UnknownName:
    """The error for an archive that is not there."""
    msg = "there is no such artifact"
    return UnknownName(msg, code="CTL-358", found=repr(sha256)[:100], hint="upload it again")


def _sum_of(file: BinaryIO) -> str:
    total = hashlib.sha256()
    while piece := file.read(_PIECE):
        total.update(piece)
    return total.hexdigest()
