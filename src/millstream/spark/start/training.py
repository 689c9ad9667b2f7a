"""Making the class archive: once, in a process of its own, behind a run that had none.

The process runs a small job on a JVM that notes which classes it loads and writes them down when it ends.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
import sys
from pathlib import Path

from millstream.spark.start import caches
from millstream.spark.start.command import JvmSettings

logger = logging.getLogger(__name__)
_MODULE = "millstream.driver.training"


def train_behind(entry: Path, settings: JvmSettings) -> None:
    """Start the process that makes an entry of the cache, if it is to be made; nobody waits for it."""
    if not caches.is_wanted(entry):
        return
    try:
        caches.make_folder(entry)
        log = (entry / "log").open("wb")
    except OSError as problem:
        logger.info("no class archive, the cache cannot be written: %s", problem)
        return
    with log:
        subprocess.Popen(
            _command(entry, settings),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )


def train_now(entry: Path, settings: JvmSettings) -> str | None:
    """Make an entry and wait for it; what went wrong, if anything did."""
    caches.make_folder(entry)
    (entry / caches.FAILED).unlink(missing_ok=True)
    done = subprocess.run(_command(entry, settings), capture_output=True, text=True, check=False)
    return None if caches.prepared(entry) is not None else done.stderr.strip() or "another process is making it"


def _command(entry: Path, settings: JvmSettings) -> list[str]:
    return [sys.executable, "-m", _MODULE, str(entry), settings.memory, shlex.join(settings.options)]
