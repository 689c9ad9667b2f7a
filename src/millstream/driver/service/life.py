"""The life of a driver process: load the job, run it, and tell how it ended before the process does."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from millstream.api.running.result import Ending, RunResult
from millstream.checkpoint.failpoint import failpoint
from millstream.contract.run_folder import write_durably
from millstream.contract.warm_start import names_secrets
from millstream.driver.service.expected_state import refuse_lost
from millstream.driver.service.failure import error_facts
from millstream.driver.service.loading import confine_functions, engine_of, options_of, planned
from millstream.driver.service.process import DriverProcess, result_of
from millstream.driver.service.rescaled_start import rescaled
from millstream.driver.service.told import RunState, graph_facts
from millstream.driver.service.watch import Watch
from millstream.errors import ExternalFailure
from millstream.inspect.run_facts import result_facts
from millstream.jobmaster.stopping import StopSignals
from millstream.plan.deployment import Deployment, DeploymentPlan

_GRACE_SECONDS = 20.0
"""How long a cancelled run may take to end; then it is left as it is, as after a crash."""
_POLL_SECONDS = 0.2
_FLUSH_SECONDS = 1.0
_STATES: dict[Ending, RunState] = {
    "finished": "COMPLETED",
    "drained": "COMPLETED",
    "suspended": "SUSPENDED",
    "cancelled": "CANCELLED",
}
_log = logging.getLogger(__name__)


class RunLife:
    """Runs the job of a driver and ends the process with the right words."""

    def __init__(self, driver: DriverProcess) -> None:
        self._driver, self._spec = driver, driver.spec
        self._signals = StopSignals(driver.ask, "cancel", _log.warning)
        self._watch = Watch(driver, stop=self._stop, kill=self._kill)
        self._told = threading.Lock()
        self._cause: str | None = None

    def live(self) -> int:
        """Run to the end; the exit code of the process."""
        self._signals.hold_all()
        self._watch.start()
        try:
            result = self._run()
        except KeyboardInterrupt:
            self._tell(self._cancelled(), cause="stopped at once by a second signal")
            self.leave(0)
        except BaseException as problem:
            _log.exception("the run failed")
            self._tell(None, problem=problem)
            return 1
        self._tell(result)
        return 0

    def _run(self) -> RunResult:
        options = options_of(self._spec)
        deployment = options.deployment()
        is_early = not names_secrets(self._spec)
        if is_early:
            self._start_early(deployment)
        self._driver.await_secrets()
        if self._driver.control.is_cancelled:
            return self._cancelled()
        if not is_early:
            self._start_early(deployment)
        confine_functions(self._spec.definition, self._spec.code)
        plan = planned(self._spec, options)
        self._driver.reports.report("graph", graph_facts(plan))
        self._hold_signals(plan)
        refuse_lost(self._spec)
        return self._wait(plan, engine_of(self._spec, rescaled(options, plan), plan))

    def _start_early(self, deployment: Deployment) -> None:
        """The JVM takes seconds to start: it does so while the job is loaded."""
        if self._spec.engine == "spark":
            from millstream.spark.start.launch import start_early

            # What workers print may hold secrets, which are hidden on the way into the log.
            start_early(deployment, claims=False, log=self._driver.jvm_log().write)

    def _hold_signals(self, plan: DeploymentPlan) -> None:
        """From now on a signal ends the run as its job wishes; before, there was nothing to end."""
        self._signals = StopSignals(self._driver.ask, plan.on_stop, _log.warning)
        self._signals.hold_all()

    def _wait(self, plan: DeploymentPlan, engine: Any) -> RunResult:
        running = self._driver.started(plan.name, engine)
        cancelled_at: float | None = None
        while True:
            result = result_of(running, _POLL_SECONDS)
            if result is not None:
                return result
            if self._driver.control.is_cancelled:
                cancelled_at = cancelled_at or time.monotonic()
                if time.monotonic() - cancelled_at > _GRACE_SECONDS:
                    self._tell(self._cancelled(), cause=f"cancelled, and left after {_GRACE_SECONDS:g} s")
                    self.leave(0)

    def _cancelled(self) -> RunResult:
        return RunResult(job=self._spec.job, checkpoint=self._spec.checkpoint, ended="cancelled", **self._totals())

    def _totals(self) -> dict[str, Any]:
        return dict(self._driver.epochs.totals)

    def _stop(self, cause: str) -> None:
        """Memory runs out: as a signal to stop would."""
        self._cause = cause
        os.kill(os.getpid(), signal.SIGTERM)

    def _kill(self, problem: ExternalFailure) -> None:
        """Memory has run out: tell, then end every process of the run."""
        self._tell(None, problem=problem)
        self.leave(1)

    def _tell(
        self, result: RunResult | None, *, problem: BaseException | None = None, cause: str | None = None
    ) -> None:
        """The last reports, once: answers, the final state, the result; it is on the disk before the process ends."""
        if not self._told.acquire(blocking=False):
            return
        self._watch.tell_progress()
        self._watch.tell_subtasks()
        self._driver.asked.end()
        ended = "failed" if result is None else result.ended
        state: RunState = "FAILED" if result is None else _STATES[result.ended]
        cause = cause or self._watch.orphaned or self._cause or ended
        self._driver.states.enter(state, cause, error=problem)
        error = None if problem is None else error_facts(problem)
        body: dict[str, Any] = {"status": state, "ended": ended, "cause": cause, "error": error}
        body |= {name: None if error is None else error[name] for name in ("domain", "retry", "oom")}
        body["result"] = None if result is None else result_facts(result)
        write_durably(self._driver.folder.result, self._driver.reports.report("result", body))
        failpoint("driver_ended")
        self._driver.socket.flush(_FLUSH_SECONDS)

    def leave(self, code: int) -> None:
        """End the process under a run that goes on, with all of its children."""
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(_POLL_SECONDS)  # the log is written by a thread
        leave_at_once(code)


def leave_at_once(code: int) -> None:
    """End this process and everything it started, whatever its threads do."""
    for pid in _session_processes():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    os._exit(code)


def _session_processes() -> list[int]:
    """The other processes of this session."""
    here, mine, found = os.getsid(0), os.getpid(), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != mine:
            with contextlib.suppress(OSError):
                if os.getsid(int(folder.name)) == here:
                    found.append(int(folder.name))
    return found
