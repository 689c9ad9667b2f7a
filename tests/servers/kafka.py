"""A real Kafka broker as a child process of the tests; `scripts/kafka_server.py install` fetches it."""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from scripts import kafka_server
from tests.servers.kafka_topics import KafkaTopics
from tests.servers.ports import free_ports
from tests.servers.proxy import Proxy

_START_SECONDS = 60
MISSING = f"no Kafka broker at {kafka_server.home()}; run `python scripts/kafka_server.py install`"
_CHILD = Path(__file__).with_name("child.py")


class KafkaServer(KafkaTopics):
    """One broker in a folder of its own, on a port that stays the same over restarts; for tests that kill or pause it.

    Args:
        proxied: whether it has a second listener behind a `Proxy`: `proxy` loses what a test tells it to lose, and clients
            that start from `proxied_servers` reach the broker through it alone.
        settings: of the broker, added to those of `scripts/kafka_server.py`.
    """

    def __init__(self, *, proxied=False, settings=None):
        if not kafka_server.home().exists():
            pytest.skip(MISSING)
        _remove_folders_of_the_dead()
        self.folder = Path(tempfile.mkdtemp(prefix=f"ms-kafka-{os.getpid()}-"))
        names = ["PLAINTEXT", "CONTROLLER", *(["PROXY"] if proxied else [])]
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.proxy = Proxy(self._ports["PROXY"]) if proxied else None
        if proxied:
            self._ports["FRONT"] = self.proxy.port
            self.proxied_servers = f"127.0.0.1:{self.proxy.port}"
        super().__init__(f"127.0.0.1:{self._ports['PLAINTEXT']}")
        self._settings = settings
        self._process = None
        atexit.register(self.stop)

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        """Start and wait until it answers."""
        self.launch()
        until = time.monotonic() + _START_SECONDS
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > until:
                msg = f"the Kafka broker does not start: {(self.folder / 'log').read_text()[-2000:]}"
                self.stop()
                raise RuntimeError(msg)
        return self

    def launch(self):
        """Start without waiting."""
        prepared = kafka_server.prepare(self.folder, self._ports, self._settings)
        command = [sys.executable, str(_CHILD), str(os.getpid()), *kafka_server.command(prepared)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, start_new_session=True)

    def pause(self):
        """Stop it as a machine that hangs: connections stay open, nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def kill(self):
        """`kill -9`; what was acknowledged is there after the next start."""
        self._process.kill()
        self._process.wait()

    def restart(self):
        """Kill it and start it again."""
        self.kill()
        return self.start()

    def stop(self):
        """Kill it and remove its folder."""
        if self._process is not None:
            self.kill()
        if self.proxy is not None:
            self.proxy.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.stop)


def _remove_folders_of_the_dead():
    """A run that was killed with -9 takes its brokers along, but not their folders."""
    for folder in Path(tempfile.gettempdir()).glob("ms-kafka-*-*"):
        owner = folder.name.split("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)
