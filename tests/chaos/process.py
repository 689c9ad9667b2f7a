"""Processes that run the job: started, watched, paused and killed."""

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from millstream.checkpoint.failpoint import LOG, VARIABLE

ROOT = Path(__file__).parents[2]
POLL = 0.01


class JobProcess:
    """One process that runs the job."""

    def __init__(self, pid, log, waited):
        self.pid, self._log, self._waited = pid, log, waited
        self.began = time.monotonic()

    @property
    def code(self):
        """The exit code, a negative signal, or `None` while it lives."""
        return self._waited(0)

    def wait(self, seconds):
        """The exit code; raises `TimeoutError`."""
        code = self._waited(seconds)
        if code is None:
            raise TimeoutError(f"process {self.pid} has not ended in {seconds} s; log {self._log}")
        return code

    def signal(self, number):
        if self.code is None:
            os.kill(self.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        return self.wait(20)

    @property
    def is_stopped(self):
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        except OSError:
            return False

    @property
    def end(self):
        """What the job said about its end: kind and code; empty when it was killed."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        if lines and lines[-1].startswith("{"):
            return json.loads(lines[-1])
        return {}


class Processes:
    """Starts processes, by a fork of a prepared one or from nothing, and ends all of them in the end."""

    def __init__(self):
        self._numbers = itertools.count()
        self._ends, self._ended = {}, threading.Condition()
        self._answers = queue.Queue()
        self._started = []
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._environment = environment
        self._server = None

    def start(self, folder, *, failpoints="", fresh=False, max_bytes=None):
        """Run the job of a folder.

        Args:
            folder: holds its config.json.
            failpoints: armed for this process.
            fresh: a new interpreter instead of a fork.
            max_bytes: no file may grow beyond.
        """
        # Beside the folder, which may be on a disk that is made full.
        logs = Path(f"{folder}.logs")
        logs.mkdir(exist_ok=True)
        log = logs / f"{next(self._numbers):04d}.log"
        log.touch()
        armed = {VARIABLE: failpoints, LOG: str(logs / "failpoints")}
        begin = self._execute if fresh else self._fork
        process = begin(Path(folder), log, armed, max_bytes)
        self._started.append(process)
        return process

    def _execute(self, folder, log, armed, max_bytes):
        limit = ["prlimit", f"--fsize={max_bytes}"] if max_bytes else []
        with log.open("ab") as error:
            child = subprocess.Popen(
                [*limit, sys.executable, str(ROOT / "tests/chaos/job.py"), str(folder)],
                env={**self._environment, **armed},
                stdout=error,
                stderr=error,
                cwd=ROOT,
                start_new_session=True,
            )

        def waited(seconds):
            try:
                return child.wait(seconds) if seconds else child.poll()
            except subprocess.TimeoutExpired:
                return None

        return JobProcess(child.pid, log, waited)

    def _fork(self, folder, log, armed, max_bytes):
        if self._server is None:
            self._open_server()
        request = {"folder": str(folder), "env": armed, "log": str(log), "max_bytes": max_bytes}
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        pid = self._answers.get(timeout=60)

        def waited(seconds):
            with self._ended:
                self._ended.wait_for(lambda: pid in self._ends, seconds)
                return self._ends.get(pid)

        return JobProcess(pid, log, waited)

    def _open_server(self):
        command = [sys.executable, "-m", "tests.chaos.starter"]
        self._server = subprocess.Popen(
            command, env=self._environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self):
        for line in self._server.stdout:
            message = json.loads(line)
            if "started" in message:
                with self._ended:
                    self._ends.pop(message["started"], None)
                self._answers.put(message["started"])
            else:
                with self._ended:
                    self._ends[message["pid"]] = message["code"]
                    self._ended.notify_all()

    def end_all(self):
        """Kill whatever still runs, paused or not."""
        for process in self._started:
            process.signal(signal.SIGKILL)
        self._started.clear()

    def close(self):
        self.end_all()
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait(20)
            self._listener.join(20)
            self._server.stdout.close()


def await_true(condition, seconds, what):
    """Wait until a condition holds."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not happen in {seconds} s")
        time.sleep(POLL)
    return found
