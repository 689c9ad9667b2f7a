"""The zygote: one Python process that has imported everything, and forks when Spark wants a Python process.

What Spark starts is a shim of a few lines. It hands its arguments, environment and streams to the zygote, and stays as the
process that Spark knows. Without a zygote the shim becomes the real Python.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_HERE = Path(__file__).parent
_LONGEST_SHEBANG = 120
_SETTINGS = {
    # Spark gives its Python processes this seed, and it counts from the start of an interpreter.
    "PYTHONHASHSEED": "0",
    # So does this: what a function prints is not lost when its process leaves without ceremony.
    "PYTHONUNBUFFERED": "YES",
    # A thread does not survive a fork. Spark gives its Python processes one thread for sums, too.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class Zygote:
    """A zygote that is starting; it ends when its standard input does."""

    def __init__(self, folder: Path, environ: Mapping[str, str], log: int | None = None) -> None:
        self.shim = folder / "python"
        self.shim.write_text(_shim(folder / "zygote"))
        self.shim.chmod(0o700)
        # It can be asked from now on: shims that come before it is ready wait.
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "zygote"))
            listening.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, str(_HERE / "zygote_process.py"), str(listening.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**environ, **_SETTINGS},
                pass_fds=[listening.fileno()],
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def end(self) -> None:
        """End it; processes that it forked for Spark end as well."""
        assert self._process.stdin is not None, "the zygote was started with a pipe"
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
            return
        self._process.kill()
        self._process.wait()


def can_be_used() -> bool:
    """Whether this interpreter can be named in the first line of a script."""
    return len(sys.executable) < _LONGEST_SHEBANG and not any(letter.isspace() for letter in sys.executable)


def _shim(listening: Path) -> str:
    text = (_HERE / "shim.txt").read_text()
    values = f"PYTHON, ZYGOTE = {os.fsencode(sys.executable)!r}, {str(listening)!r}\n"
    return f"#!{sys.executable} -IS\n{values}{text}"
