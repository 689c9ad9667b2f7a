"""Folders that only this user can look into: one for each process that runs Spark, and one for what JVMs print.

A process holds a lock on its folder while it lives, so that the next start can tell what a killed one left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

_LONGEST_SOCKET_FOLDER = 60
"""A path to a Unix socket has at most 107 bytes, and those of Spark add a uuid to their folder."""
_KEPT_LOGS = 20
_LOCK = "lock"
_HALF_MADE_SECONDS = 60.0


class RunFolder:
    """A folder of this process, removed by `remove`, or by the next start when the process was killed."""

    def __init__(self) -> None:
        root = _root()
        self.path = Path(tempfile.mkdtemp(prefix="run-", dir=root))
        self._lock = _locked(self.path)
        threading.Thread(target=sweep, args=(root,), name="millstream-sweep", daemon=True).start()

    def remove(self) -> None:
        """Remove it with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def jvm_log() -> Path:
    """Where the JVM of this process prints, so that the user's terminal shows only what is ours."""
    return _root() / "logs" / f"spark-{os.getpid()}.log"


def open_log(path: Path) -> IO[bytes]:
    """Open a log for appending, for this user alone; the oldest ones go."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "ab")
    logs = sorted(path.parent.glob("spark-*.log"), key=_written)
    for old in logs[:-_KEPT_LOGS]:
        old.unlink(missing_ok=True)
    return file


def sweep(root: Path) -> None:
    """Remove the folders of processes that are gone."""
    for folder in root.glob("run-*"):
        with contextlib.suppress(OSError):  # it went, or is another sweep's
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _root() -> Path:
    """Our corner of the temporary directory; one that somebody else has prepared is not used."""
    base = Path(tempfile.gettempdir())
    if len(str(base)) > _LONGEST_SOCKET_FOLDER:
        base = Path("/tmp")
    root = base / f"millstream-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    return root if _is_private(root) else Path(tempfile.mkdtemp(prefix="millstream-", dir=base))


def _is_private(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _locked(folder: Path) -> IO[bytes]:
    # Locked first and named then: a lock that can be seen and taken is that of a process that is gone.
    hidden = folder / f"{_LOCK}.new"
    file = hidden.open("wb")
    fcntl.flock(file, fcntl.LOCK_EX)
    hidden.rename(folder / _LOCK)
    return file


def _is_left(folder: Path) -> bool:
    lock = folder / _LOCK
    if not lock.exists():
        return time.time() - _written(folder) > _HALF_MADE_SECONDS
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
