"""Folders that only this user can look into: one for each process that runs Spark, and one for what JVMs print.

A process holds a lock on its folder while it lives, so that the next start can tell what a killed one left behind.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import IO

_LONGEST_ROOT = 107 - len("/run-12345678") - len("/local") - len("/.12345678-1234-1234-1234-123456789012.sock")
"""A path to a Unix socket has at most 107 bytes, and those of Spark lie below our folder."""
_KEPT_LOGS = 20
_HALF_MADE_SECONDS = 60.0


class RunFolder:
    """A folder of this process, removed by `remove`, or by the next start when the process was killed."""

    def __init__(self) -> None:
        root = _root()
        # Locked first and named then: one that can be seen and locked is that of a process that is gone.
        made = Path(tempfile.mkdtemp(prefix="new-", dir=root))
        self._lock = _locked(made)
        self.path = made.rename(root / made.name.replace("new-", "run-", 1))
        threading.Thread(target=sweep, args=(root,), name="millstream-sweep", daemon=True).start()

    def remove(self) -> None:
        """Remove it with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


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
    try:
        half_made = [folder for folder in root.glob("new-*") if time.time() - _written(folder) > _HALF_MADE_SECONDS]
        folders = [*root.glob("run-*"), *half_made]
    except FileNotFoundError:  # the whole corner went meanwhile
        return
    for folder in folders:
        with contextlib.suppress(OSError):  # it went, or is another sweep's
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


@cache
def _root() -> Path:
    """Our corner of the temporary directory; one that somebody else has prepared is not used."""
    for base in (Path(tempfile.gettempdir()), Path("/tmp")):
        root = base / f"millstream-{os.getuid()}"
        if len(os.fsencode(root)) <= _LONGEST_ROOT:
            break
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    if _is_private(root):
        return root
    own = Path(tempfile.mkdtemp(prefix="millstream-", dir=root.parent))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def _is_private(folder: Path) -> bool:
    about = folder.lstat()
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077


def _locked(folder: Path) -> int:
    """A lock on the folder itself: those who tidy temporary directories would take a file in it for forgotten."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(number, fcntl.LOCK_EX)
    return number


def _is_left(folder: Path) -> bool:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(number)
    return True


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
