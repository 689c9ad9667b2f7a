"""The epoch loop of the local engine: the same planner, tasks, operators and epoch protocol as on Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from millstream.checkpoint.stores.local import sync_directory, write_synced
from millstream.errors import CheckpointRefused
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.epoch import EpochPlan
from millstream.runtime.exchange import DRIVER, Cell
from millstream.runtime.planner import Clock
from millstream.runtime.program import LevelProgram
from millstream.runtime.run import Listener, Run, RunResult
from millstream.runtime.task import run_source_task, run_subtask

_IDLE_SECONDS = 0.05
_KEPT = 2


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


State = dict[str, dict[str, bytes]]
"""Pages by task (`level/subtask`)."""


def run(
    deployment: DeploymentPlan,
    *,
    clock: Clock | None = None,
    listener: Listener | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Run until the input ends, or until `should_stop` says to drain: read no more, close windows, publish, end."""
    run_state = Run(deployment, engine="local", clock=clock, listener=listener)
    try:
        if not run_state.is_complete:
            _LocalLoop(deployment, run_state).run(should_stop)
        return run_state.result
    finally:
        run_state.close()


class _LocalLoop:
    def __init__(self, deployment: DeploymentPlan, run_state: Run) -> None:
        self._deployment, self._run = deployment, run_state
        self._programs = [LevelProgram(deployment, level) for level in range(deployment.plan.depth + 1)]
        self._folder = None if deployment.checkpoint is None else Path(deployment.checkpoint) / "local"
        resumed = run_state.resume_plan()
        self._last = resumed or run_state.planner.initial()
        self._state: State = {} if resumed is None else self._restored(resumed.epoch)

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Plan, run and finish epochs until the terminal one is published."""
        planner = self._run.planner
        while not self._last.terminal:
            if should_stop():
                planner.drain()
            plan = planner.next(self._last)
            if plan == self._last:
                time.sleep(_IDLE_SECONDS)
                continue
            reports = self._epoch(plan)
            self._save(plan.epoch)
            self._run.finish_epoch(reports)
            self._last = plan

    def _epoch(self, plan: EpochPlan) -> list[bytes]:
        """Run every level; cells for a later level pass the ones between as they do on Spark."""
        tasks = self._run.planner.tasks(self._last, plan, self._run.lineage)
        cells = [cell for task in tasks for cell in run_source_task(self._programs[0], task)]
        reports = [cell.body for cell in cells if cell.level == DRIVER]
        for program in self._programs[1:]:
            cells, made = self._level(program, [cell for cell in cells if cell.level != DRIVER])
            reports += made
        return reports

    def _level(self, program: LevelProgram, cells: list[Cell]) -> tuple[list[Cell], list[bytes]]:
        made: list[Cell] = []
        for subtask in range(self._deployment.plan.parallelism):
            pages = LocalPages(self._state.setdefault(f"{program.level}/{subtask}", {}))
            mine = [cell for cell in cells if cell.slot == subtask]
            made += run_subtask(program, subtask, mine, pages)
        return [c for c in made if c.level != DRIVER], [c.body for c in made if c.level == DRIVER]

    def _save(self, epoch: int) -> None:
        """State is on disk before the manifest that needs it."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / ".state"
        write_synced(temporary, msgspec.msgpack.encode(self._state))
        temporary.replace(self._path(epoch))
        sync_directory(self._folder)
        self._path(epoch - _KEPT).unlink(missing_ok=True)

    def _restored(self, epoch: int) -> State:
        assert self._folder is not None, "only a checkpoint directory can be resumed"
        try:
            return msgspec.msgpack.decode(self._path(epoch).read_bytes(), type=State)
        except (FileNotFoundError, msgspec.DecodeError) as problem:
            msg = f"the state of epoch {epoch} cannot be read: {problem}"
            raise CheckpointRefused(
                msg,
                code="CKPT-009",
                hint="resume with the engine that wrote it, or start in a new checkpoint directory",
            ) from problem

    def _path(self, epoch: int) -> Path:
        assert self._folder is not None, "only checkpoint directories hold state files"
        return self._folder / f"state-{epoch:012d}"
