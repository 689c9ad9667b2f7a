"""A standalone Spark master with two workers, each in a network of its own where the machine allows that."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from millstream.spark.start.command import LAUNCHERS_OPTIONS, spark_jars

_NETWORK = "10.201.77"
_START_SECONDS = 120


class SparkCluster:
    """`url` is its master; it ends with `stop`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._spaces = _NetworkSpaces() if _NetworkSpaces.can_be_made() else None
        self.is_apart = self._spaces is not None

    def start(self) -> "SparkCluster":
        host = f"{_NETWORK}.1" if self._spaces else "127.0.0.1"
        port = _free_port(host)
        self.url = f"spark://{host}:{port}"
        self._run(
            "master", "org.apache.spark.deploy.master.Master", "--host", host, "--port", port, "--webui-port", "0"
        )
        for number in (2, 3):
            own = f"{_NETWORK}.{number}" if self._spaces else f"127.0.0.{number}"
            work = str(self._folder / f"work-{number}")
            size = ("--cores", "1", "--memory", "1g")
            self._run(
                f"worker-{number}",
                *(
                    "org.apache.spark.deploy.worker.Worker",
                    "--host",
                    own,
                    "--webui-port",
                    "0",
                    *size,
                    "-d",
                    work,
                    self.url,
                ),
                space=self._spaces.name(number) if self._spaces else None,
            )
        self._wait()
        return self

    def _run(self, name: str, *arguments: object, space: str | None = None) -> None:
        home = spark_jars()[0].parent.parent
        env = {**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
        inside = ["ip", "netns", "exec", space] if space else []
        java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", *LAUNCHERS_OPTIONS, "-cp", f"{home}/jars/*"]
        with (self._folder / f"{name}.log").open("wb") as log:
            command = [*inside, *java, *map(str, arguments)]
            self._processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))

    def _wait(self) -> None:
        """Until both workers say that the master took them."""
        deadline = time.monotonic() + _START_SECONDS
        logs = [self._folder / f"worker-{number}.log" for number in (2, 3)]
        while not all("Successfully registered with master" in log.read_text() for log in logs):
            if time.monotonic() > deadline:
                texts = "\n".join(log.read_text()[-2000:] for log in logs)
                msg = f"the workers were not registered in {_START_SECONDS} s:\n{texts}"
                raise TimeoutError(msg)
            time.sleep(0.1)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait()
        if self._spaces is not None:
            self._spaces.remove()


class _NetworkSpaces:
    """Two network namespaces on a bridge, called after this process."""

    def __init__(self) -> None:
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{_NETWORK}.1/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for number in (2, 3):
            space, outside = self.name(number), f"msv{number}{os.getpid() % 100000}"
            _ip("netns", "add", space)
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outside, "master", self.bridge, "up")
            for words in (("link", "set", "lo", "up"), ("link", "set", "eth0", "up")):
                _ip("-n", space, *words)
            _ip("-n", space, "addr", "add", f"{_NETWORK}.{number}/24", "dev", "eth0")

    @property
    def bridge(self) -> str:
        return f"msb{os.getpid() % 100000}"

    def name(self, number: int) -> str:
        return f"ms-{os.getpid()}-{number}"

    def remove(self) -> None:
        for number in (2, 3):
            _ip("netns", "del", self.name(number))
        _ip("link", "del", self.bridge)

    @classmethod
    def can_be_made(cls) -> bool:
        if os.getuid() != 0 or shutil.which("ip") is None:
            return False
        probe = f"msp{os.getpid() % 100000}"
        try:
            _ip("link", "add", probe, "type", "bridge")
            _ip("netns", "add", probe)
        except subprocess.CalledProcessError:
            return False
        finally:
            for words in (("link", "del", probe), ("netns", "del", probe)):
                with contextlib.suppress(subprocess.CalledProcessError):
                    _ip(*words)
        return True


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
