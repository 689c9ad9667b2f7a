"""The epoch loop of the local engine: the same planner, tasks, operators and epoch protocol as on Spark."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial

from millstream.api.running.control import HeldBack, RunControl
from millstream.api.running.result import Listener, RunResult
from millstream.api.running.subtasks import SubtaskState
from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.manifest import StateFileRecord
from millstream.jobmaster.attempts import Attempts, run_tolerant
from millstream.jobmaster.planner.planner import Clock
from millstream.jobmaster.run import Run
from millstream.jobmaster.stopping import stop_signals
from millstream.local.native import LocalSide, copy_state
from millstream.local.state_files import State, StateFiles
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.epoch import EpochPlan
from millstream.plan.start import Start
from millstream.runtime.exchange.cells import DRIVER, Cell
from millstream.runtime.program import LevelProgram
from millstream.runtime.task import run_source_task, run_subtask

_IDLE_SECONDS = 0.05


class LocalPages:
    """Pages of one subtask in a dict."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content

    def get(self, key: str) -> bytes | None:
        """A page, or `None`."""
        return self.content.get(key)

    def put(self, key: str, content: bytes) -> None:
        """Write a page."""
        self.content[key] = content

    def delete(self, key: str) -> None:
        """Remove a page."""
        self.content.pop(key, None)


def run(
    deployment: DeploymentPlan,
    *,
    clock: Clock | None = None,
    listener: Listener | None = None,
    control: RunControl | None = None,
    start: Start | None = None,
) -> RunResult:
    """Run until the input ends, or until `control` asks for another end."""
    control = control or RunControl()
    open_run = partial(
        Run,
        deployment,
        engine="local",
        clock=clock,
        listener=listener,
        control=control,
        start=start,
        side=LocalSide(),
    )
    attempts = Attempts(open_run, _run_epochs)
    # Without a checkpoint there is nothing to start again from.
    tolerated = 0 if deployment.checkpoint is None else deployment.epochs.tolerated_failures
    with stop_signals(control, deployment.on_stop) as signals:
        return signals.checked(run_tolerant(attempts.once, tolerated, attempts, control))


def _run_epochs(run_state: Run) -> None:
    loop = _LocalLoop(run_state.deployment, run_state)
    try:
        loop.run()
    finally:
        loop.close()


class _Cancelled(Exception):
    """The epoch in flight is dropped."""


class _LocalLoop:
    def __init__(self, deployment: DeploymentPlan, run_state: Run) -> None:
        self._deployment, self._run = deployment, run_state
        self._programs = [LevelProgram(deployment, level) for level in range(deployment.plan.depth + 1)]
        folder = run_state.folder("local")
        self._files = None
        if folder is not None:
            self._files = StateFiles(folder, token=run_state.lease.token, retained=deployment.epochs.retained)
        resumed = run_state.resume_plan()
        self._last = resumed or run_state.planner.initial()
        self._state: State = {}
        if run_state.resumed is not None and self._files is not None:
            self._state = self._files.load(run_state.resumed)

    def run(self) -> None:
        """Plan, run and finish epochs until the run is asked to end or its input has."""
        requests = self._run.requests
        while True:
            requests.poll()
            if requests.native is not None:
                self._run.take_native(partial(copy_state, self._run.folder("local")))
            if requests.ended is not None:
                self._run.result.ended = requests.ended
                return
            plan = self._run.plan_next(self._last)
            if plan == self._last:
                time.sleep(_IDLE_SECONDS)
                continue
            try:
                self._epoch(plan)
            except (_Cancelled, HeldBack):
                continue

    def close(self) -> None:
        """The run ends: so does the life of its functions."""
        for program in self._programs:
            program.functions.close()

    def _epoch(self, plan: EpochPlan) -> None:
        self._run.begin_epoch(plan.epoch)
        reports = self._reports(plan)
        self._run.finish_epoch(reports, self._saved(plan.epoch))
        failpoint("before_commit_log")
        if self._files is not None:
            self._files.retire()
        self._last = plan

    def _saved(self, epoch: int) -> list[StateFileRecord]:
        return [] if self._files is None else [self._files.save(epoch, self._state)]

    def _reports(self, plan: EpochPlan) -> list[bytes]:
        """Run every level; cells for a later level pass the ones between as they do on Spark."""
        tasks = self._run.planner.tasks(self._last, plan, self._run.identity_for(plan))
        cells: list[Cell] = []
        for task in tasks:
            with self._noted(0, task.task):
                cells += run_source_task(self._programs[0], task)
            failpoint("task_staged")
            self._drop_if_cancelled()
        reports = [cell.body for cell in cells if cell.level == DRIVER]
        for program in self._programs[1:]:
            cells, made = self._level(program, [cell for cell in cells if cell.level != DRIVER])
            reports += made
            self._drop_if_cancelled()
        return reports

    @contextlib.contextmanager
    def _noted(self, level: int, subtask: int) -> Iterator[None]:
        """Whoever looks at the run sees what it does now; what fails is noted with why when the run closes."""
        self._run.subtasks.note(level, subtask, 0, SubtaskState.RUNNING)
        yield
        self._run.subtasks.note(level, subtask, 0, SubtaskState.FINISHED)

    def _drop_if_cancelled(self) -> None:
        """Between tasks: what runs here cannot be interrupted, and what is staged is swept by the next start."""
        self._run.requests.poll()
        if self._run.requests.ended == "cancelled":
            raise _Cancelled

    def _level(self, program: LevelProgram, cells: list[Cell]) -> tuple[list[Cell], list[bytes]]:
        made: list[Cell] = []
        for subtask in range(self._deployment.plan.parallelism):
            pages = LocalPages(self._state.setdefault(f"{program.level}/{subtask}", {}))
            mine = [cell for cell in cells if cell.slot == subtask]
            with self._noted(program.level, subtask):
                made += run_subtask(program, subtask, mine, pages)
        return [c for c in made if c.level != DRIVER], [c.body for c in made if c.level == DRIVER]
