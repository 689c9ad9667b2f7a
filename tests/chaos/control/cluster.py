"""Two nodes, two dispatchers and a database as processes that can be killed, paused and started again."""

import contextlib
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from sqlalchemy import select
from tests.servers.postgres import PostgresServer

from millstream.control.act import acting
from millstream.control.dispatcher.definitions import Submission, submit
from millstream.control.dispatcher.planning import planned_apart
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.lifecycle.states import OWNED
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.runs import execution
from millstream.control.settings import settings_of
from millstream.errors import ExternalFailure, StateConflict

SETTINGS = {"restart": {"strategy": "fixed_delay", "delay": 0.1}}


class ServiceProcess:
    """A process that is started again under the same name; with `namespace` it sees only its own processes."""

    def __init__(self, name, folder, arguments, *, namespace=False, environment=None):
        self.name, self.log = name, folder / f"{name}.log"
        self.data = folder / name
        self._command = [sys.executable, "-m", "tests.chaos.control.node_process", *arguments]
        if namespace:
            self._command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *self._command]
        self.environment = dict(environment or {})
        self.process = None

    def start(self):
        root = Path(__file__).resolve().parents[3]
        with self.log.open("ab") as log:
            self._began_at = log.tell()
            self.process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=root,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    @property
    def is_up(self):
        """Whether this process of a node has registered."""
        with self.log.open("rb") as log:
            log.seek(self._began_at)
            return self.is_running and b" is there, and answers for " in log.read()

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait(20)

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def registrations(self):
        """When a process of this node was there, by its log."""
        told = [line[:23] for line in self.log.read_text().splitlines() if " is there, and answers for " in line]
        return [dt.datetime.strptime(each, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() for each in told]

    def drivers(self):
        """Drivers that this node started and that live: process id and run, by the files of their folders."""
        found = {}
        for path in self.data.glob("runs/*/driver.json"):
            with contextlib.suppress(OSError, ValueError):
                told = json.loads(path.read_text())
                if _lives(told["pid"], path.parent):
                    found[told["pid"]] = path.parent.name.partition(".")[0]
        return found


def _lives(pid, folder):
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes() and state not in "ZX"
    return False


class Cluster:
    """The service; `with Cluster(folder) as cluster:` leaves nothing behind."""

    def __init__(self, folder, *, nodes=2, dispatchers=2, namespaces=False):
        self.folder = folder
        self.database = PostgresServer(settings={"deadlock_timeout": "200ms"}).start()
        self.output = PostgresServer().start()
        self.metadata = Metadata(self.database.url)
        migrate.upgrade(self.metadata)
        where = ["--database", self.database.url]
        self.nodes = [
            ServiceProcess(
                name,
                folder,
                [*where, "--data", str(folder / name), "--checkpoints", str(folder / "checkpoints")],
                namespace=namespaces,
            )
            for name in (f"node-{number}" for number in range(nodes))
        ]
        self.dispatchers = [
            ServiceProcess(f"dispatcher-{number}", folder, [*where, "--dispatcher"]) for number in range(dispatchers)
        ]
        self.runs = {}

    @property
    def processes(self):
        return [*self.nodes, *self.dispatchers]

    def __enter__(self):
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.is_running:
                process.signal(signal.SIGCONT)
                process.kill()
        for node in self.nodes:
            for pid in node.drivers():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
        self.metadata.close()
        for server in (self.database, self.output):
            server.stop()

    def submit(self, job):
        planned = planned_apart(job.definition, code=None, parallelism=None)
        settings = settings_of({"engine": job.engine, "master": "local[1]", **SETTINGS})
        with acting(self.metadata, "ada") as act:
            submit(act, Submission(planned, job.definition, settings, max_retry_times=1_000_000))
            self.runs[job.name] = start(act, job.name, StartOptions()).execution_id
        return self.runs[job.name]

    def rows(self):
        """The newest state of every run."""
        with acting(self.metadata) as act:
            return {row.execution_id: row for row in act.connection.execute(select(execution))}

    def row(self, job):
        with acting(self.metadata) as act:
            return run_of(act, self.runs[job.name])

    def owner(self, run):
        """The process that is the node of a run, if one is."""
        row = self.rows().get(run)
        return None if row is None or row.status not in OWNED else self.node(row.node_id)

    def node(self, identifier):
        for process in self.nodes:
            path = process.data / "node-id"
            if path.exists() and path.read_text().strip() == identifier:
                return process
        return None

    def stop(self, job, mode, seconds=60):
        """Ask a run for its end; one that just fails or begins anew is asked again, as people do."""
        end = time.monotonic() + seconds
        while True:
            try:
                with acting(self.metadata, "ada") as act:
                    stop(act, run_of(act, self.runs[job.name]), Wish(mode))
            except StateConflict as problem:
                if problem.code not in ("CTL-037", "CTL-038") or time.monotonic() > end:
                    raise
                time.sleep(0.2)
            else:
                return

    def until(self, holds, seconds, what):
        """Wait for something of the service; a database that is away is waited for too."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(ExternalFailure):
                if holds():
                    return
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {what}")
            time.sleep(0.1)
