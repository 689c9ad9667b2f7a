"""One driver process: it listens to its node, loads the job, runs it, watches over it and reports how it ended."""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import logging
import os
import threading
import time
from typing import Any

from millstream.api.running.control import Action, RunControl
from millstream.api.running.job import RunningJob
from millstream.api.running.result import RunResult
from millstream.checkpoint.owner import this_process
from millstream.contract.driver_protocol import (
    DriverIdentity,
    DumpRequest,
    LogLevelWish,
    NodeLine,
    Ping,
    Renewed,
    RunRequest,
    RunSpec,
    SecretValues,
)
from millstream.contract.run_folder import DriverFolder
from millstream.driver.service.asked import AskedOfRun
from millstream.driver.service.journal import Journal
from millstream.driver.service.line_socket import LineSocket
from millstream.driver.service.log_file import JVM_LOG, LogPump, jvm_output
from millstream.driver.service.mask import Mask
from millstream.driver.service.renewals import Renewals
from millstream.driver.service.reports import Reports
from millstream.driver.service.told import ReportedEpochs, ReportedLog, ReportedStates
from millstream.errors import ExternalFailure, InvalidPlan
from millstream.model.secret import held_secrets, hold_secrets

_log = logging.getLogger(__name__)


class DriverProcess:
    """What the threads of a driver share: they take lines of the node, watch, and run the job."""

    def __init__(self, folder: DriverFolder, spec: RunSpec, mask: Mask, jvm_log: LogPump | None = None) -> None:
        self.folder, self.spec, self._mask, self._jvm_log = folder, spec, mask, jvm_log
        self.reports = Reports(spec, Journal(folder.journal), mask)
        self.states = ReportedStates(self.reports)
        self.epochs = ReportedEpochs(self.reports)
        self.renewals = Renewals(hold_after=spec.hold_after, end_after=spec.end_after)
        self.control = RunControl(
            log=ReportedLog(self.states, spec.run),
            may_publish=self.renewals.may_publish,
            memory_limit=spec.memory_limit,
        )
        self.asked = AskedOfRun(self.control, self.reports)
        self._secrets_came = threading.Event()
        self._dumps = itertools.count(1)
        me = this_process()
        self.identity = DriverIdentity(
            pid=me.pid, started=me.started, boot=me.boot, namespace=me.namespace, host=me.host, token=spec.token
        )
        self.socket = LineSocket(folder, spec, self.reports, hello=self._hello, take=self._take)

    def _hello(self) -> dict[str, Any]:
        return {
            "pid": self.identity.pid,
            "started": self.identity.started,
            "state": self.states.state,
            "seq": self.reports.seq,
            "attempt": self.spec.attempt,
            "warm": self.spec.beginning.is_warm,
            "why": self.spec.beginning.why,
        }

    def _take(self, line: NodeLine) -> None:
        match line:
            case SecretValues():
                self._take_secrets(line)
            case Renewed():
                self.renewals.renewed(line.left_ms / 1000, line.sent)
            case RunRequest():
                self.asked.ask(line)
            case DumpRequest():
                self._dump(line.id)
            case LogLevelWish():
                logging.getLogger("millstream").setLevel(line.level.upper())
            case Ping():
                self.reports.report("alive", self.signs())

    def _take_secrets(self, line: SecretValues) -> None:
        """Masked first, so that nothing that learns them is written unmasked."""
        if self._secrets_came.is_set():
            return  # a node that came back sends them again
        values = {name: line.values[name] for name in self.spec.secret_names if name in line.values}
        self._mask.learn(values.values())
        hold_secrets(values)
        self._secrets_came.set()

    def await_secrets(self) -> None:
        """Wait for the secrets that the run names; a run that is cancelled meanwhile waits no longer.

        Raises:
            ExternalFailure: (CTL-121) they did not come in time.
            InvalidPlan: (CTL-122) some are missing.
        """
        if not self.spec.secret_names:
            return
        end = time.monotonic() + self.spec.secrets_within
        while not self._secrets_came.wait(0.1):
            if self.control.is_cancelled:
                return
            if time.monotonic() > end:
                msg = f"the node did not send the secrets of the run in {self.spec.secrets_within:g} s"
                hint = "see why the node did not connect; the run starts again by itself"
                raise ExternalFailure(msg, code="CTL-121", found=", ".join(self.spec.secret_names), hint=hint)
        missing = set(self.spec.secret_names) - set(held_secrets())
        if missing:
            msg = "the node did not send all secrets of the run"
            raise InvalidPlan(msg, code="CTL-122", found=", ".join(sorted(missing)), hint="set them, then start again")

    def signs(self) -> dict[str, Any]:
        """Signs of life: that threads run, and whether the run may publish."""
        return {
            "state": self.states.state,
            "threads": threading.active_count(),
            "standing": self.renewals.standing,
            "cpu_seconds": round(sum(os.times()[:2]), 3),
        }

    def _dump(self, id: str) -> None:
        """What every thread does, into a file and as an answer."""
        path = self.folder.logs / f"dump-{next(self._dumps)}.txt"
        with path.open("w+", encoding="utf-8") as file:
            faulthandler.dump_traceback(file, all_threads=True)
            file.seek(0)
            text = file.read(1 << 18)
        self.reports.report("answer", {"id": id, "done": True, "path": str(path), "text": text, "error": {}})

    def jvm_log(self) -> LogPump:
        """Where Spark's JVM and workers print."""
        return self._jvm_log or jvm_output(self.folder.logs / JVM_LOG, self._mask)

    def ask(self, action: Action, *, otherwise: Action | None = None) -> object:
        """Ask the run for an end, whether it has begun or not."""
        return self.control.ask(action, otherwise=otherwise)

    def started(self, name: str, engine: Any) -> RunningJob:
        """The run, in a thread of its own."""
        return RunningJob(name, engine, listener=self.epochs, control=self.control)


def result_of(running: RunningJob, seconds: float) -> RunResult | None:
    """The result of a run; `None` while it has none."""
    with contextlib.suppress(TimeoutError):
        return running.wait(seconds)
    return None
