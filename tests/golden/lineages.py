"""A job that is suspended on the way and restored elsewhere: its output over all lineages."""

from __future__ import annotations

import dataclasses
import importlib
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import millstream as ms
from millstream.api.running.control import RunControl
from millstream.api.running.result import EpochSummary, RunResult
from millstream.checkpoint.savepoint_files import verify_savepoint
from millstream.connectors.collect.sink import clear, collected
from millstream.connectors.memory.spec import MARK
from millstream.errors import MillstreamError
from millstream.graph.operations.endpoints import Sink
from millstream.model.connector import ConnectorSpec
from millstream.plan.compile import compile_job
from millstream.plan.deployment import Deployment
from millstream.plan.start import Start
from millstream.testing.harness import scripted, standing_clock

_ENGINES = {"local": "millstream.local.run", "spark": "millstream.driver.run"}


class Lineages:
    """Runs one job again and again, in checkpoints of their own; sinks collect under one label."""

    def __init__(
        self,
        job: ms.Job,
        inputs: Mapping[str, ConnectorSpec],
        folder: Path,
        *,
        rows_per_epoch: int | None = None,
        **deployment: Any,
    ) -> None:
        self._label, self._folder, self._deployment = uuid.uuid4().hex, folder, deployment
        self._model = scripted(job.model, inputs, self._label, rows_per_epoch=rows_per_epoch)
        self._sinks = {
            step.id: step.operation.connector.options["name"]
            for step in self._model.steps
            if isinstance(step.operation, Sink)
        }
        scripts = [spec.options.get("rows") for spec in inputs.values()]
        self._rows = sum(MARK not in row for script in scripts if isinstance(script, list) for row in script)
        self._has_nothing = bool(inputs) and not self._rows
        self.aborts = 0
        self.chaining = self._model.requirements.chaining
        """Whether the next run fuses its steps."""

    def __enter__(self) -> Lineages:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._sinks.values():
            clear(name)

    def output(self) -> dict[str, list[dict[str, Any]]]:
        """Rows by sink, in the order they were published."""
        return {step: collected(name) for step, name in self._sinks.items()}

    def suspended(
        self, engine: str, checkpoint: str, *, parallelism: int, after: float, savepoint: str | None = None
    ) -> str:
        """Run until a share of all rows is read by this run, and suspend; returns the savepoint."""
        control = RunControl()
        wanted = max(1, int(self._rows * after))
        seen = 0

        def listener(summary: EpochSummary) -> None:
            nonlocal seen
            before, seen = seen, seen + summary.rows_in
            if before < wanted <= seen:
                control.ask("suspend", to=str(self._folder / "savepoints"))

        if self._has_nothing:
            control.ask("suspend", to=str(self._folder / "savepoints"))
        result = self._run(engine, checkpoint, parallelism, savepoint, control=control, listener=listener)
        assert result.ended == "suspended", f"the run was {result.ended} before it was suspended"
        assert result.savepoint is not None
        verify_savepoint(result.savepoint)
        return result.savepoint

    def finished(self, engine: str, checkpoint: str, *, parallelism: int, savepoint: str | None = None) -> None:
        """Run to the end."""
        result = self._run(engine, checkpoint, parallelism, savepoint)
        assert result.ended == "finished"

    def _run(self, engine: str, checkpoint: str, parallelism: int, savepoint: str | None, **more: Any) -> RunResult:
        """Run until it ends by itself; an abort mark ends it once, and it is started again."""
        needs = dataclasses.replace(self._model.requirements, parallelism=parallelism, chaining=self.chaining)
        model = dataclasses.replace(self._model, requirements=needs)
        place = str(self._folder / checkpoint)
        plan = compile_job(model, Deployment(checkpoint=place, **self._deployment)).deployment
        run = importlib.import_module(_ENGINES[engine]).run
        while True:
            try:
                result: RunResult = run(plan, clock=standing_clock, start=Start(savepoint=savepoint), **more)
            except MillstreamError as problem:
                if problem.code != "TEST-ABORT":
                    raise
                self.aborts += 1
            else:
                return result
