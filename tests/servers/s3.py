"""A real S3-compatible server (SeaweedFS) as a child process of the tests; `scripts/s3_server.py install` fetches it."""

import atexit
import contextlib
import functools
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
from scripts import s3_server
from tests.servers.ports import free_ports

_START_SECONDS = 60
MISSING = f"no S3 server at {s3_server.program()}; run `python scripts/s3_server.py install` (or `make test-s3`)"


class S3Server:
    """A running server; every bucket is made when it is first written to."""

    def __init__(self, folder):
        self.folder = folder
        names = ["s3.port", "master.port", "volume.port", "filer.port"]
        # Each of its parts listens a second time for its own protocol.
        ports = free_ports(2 * len(names))
        self._ports = dict(zip([*names, *(f"{name}.grpc" for name in names)], ports, strict=True))
        self.port = self._ports["s3.port"]
        self._process = None

    @property
    def environment(self):
        return s3_server.environment(self.port)

    def start(self):
        with (self.folder / "log").open("ab") as log:
            command = s3_server.command(self.folder, ports=self._ports)
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        until = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                msg = f"the S3 server does not start: {(self.folder / 'log').read_text()[-2000:]}"
                raise RuntimeError(msg)
            time.sleep(0.05)

    def _answers(self):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5).status == 200
        return False

    def kill(self):
        """`kill -9`; objects that were confirmed are there after the next start."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def s3_server_running():
    """A server in a folder of its own; skips the test, with the command that helps, where the program is not installed."""
    if not s3_server.program().exists():
        pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="ms-s3-"))
    server = S3Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def shared_s3_server():
    """One server for all tests of this process; they use prefixes of their own."""
    running = contextlib.ExitStack()
    atexit.register(running.close)
    return running.enter_context(s3_server_running())
