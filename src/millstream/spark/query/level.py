"""What runs in the workers: the bodies of the source (level 0) and of `transformWithState` (levels above)."""

from __future__ import annotations

import functools
import gc
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from millstream.model.secret import held_secrets, hold_secrets
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.exchange.cells import Cell
from millstream.runtime.messages import TaskInput
from millstream.runtime.program import LevelProgram
from millstream.runtime.task import run_source_task, run_subtask
from millstream.spark.query.failed_tasks import carried_once
from millstream.spark.query.state import KEY_SCHEMA, STATE_NAME, VALUE_SCHEMA, MapStatePages
from millstream.spark.query.worker_end import call_at_end

CELL_SCHEMA = "slot int, level int, head binary, body binary"
_CELL_ARROW = pa.schema([("slot", pa.int32()), ("level", pa.int32()), ("head", pa.binary()), ("body", pa.binary())])
_programs: dict[str, dict[int, LevelProgram]] = {}
"""By plan and level; the plan that was used last stands last."""
_KEPT_PLANS = 8


class Shipped:
    """A deployment plan as bytes: unpacked and compiled once per worker process, not once per task."""

    def __init__(self, deployment: DeploymentPlan, labels: list[int], folder: str = "") -> None:
        self._content = cloudpickle.dumps(deployment)
        self.digest = hashlib.sha256(self._content).hexdigest()
        self.labels = labels
        self.folder = folder
        """Of the run, on the driver's machine; no part of the plan."""
        self._folder = Path.cwd()
        self._secrets = held_secrets()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A worker has the driver's secrets from nowhere else, and functions may ask for them as soon as they are made."""
        self.__dict__.update(state)
        if self._secrets:
            hold_secrets(self._secrets)

    def program(self, level: int) -> LevelProgram:
        """The compiled level, kept for the epochs to come."""
        # Relative paths mean the same to driver and workers; a worker on another machine may not have the folder.
        if TaskContext.get() is not None and self._folder.is_dir():
            os.chdir(self._folder)
        levels = _programs[self.digest] = _programs.pop(self.digest, {})
        if level not in levels:
            while len(_programs) > _KEPT_PLANS:
                close_functions(oldest := next(iter(_programs)))
                del _programs[oldest]
            if TaskContext.get() is not None:
                _calm_collector()
                _close_at_end()
            levels[level] = LevelProgram(cloudpickle.loads(self._content), level)
        return levels[level]


def close_functions(digest: str) -> int:
    """Close the functions of a plan in this process; says how many levels of it were compiled here."""
    levels = _programs.get(digest, {})
    for program in levels.values():
        program.functions.close()
    return len(levels)


def _close_all() -> None:
    for digest in _programs:
        close_functions(digest)


@functools.cache
def _close_at_end() -> None:
    """Once in a worker; the driver's process, where Spark also loads plans, opens nothing."""
    call_at_end(_close_all)


def _calm_collector() -> None:
    """Rows are made and dropped by the million and hold no cycles: look for garbage less often, and not in our modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def run_level_0(shipped: Shipped, encoded: bytes) -> Iterator[pa.RecordBatch]:
    """The body of a task of the source: its cells, one by one."""
    with carried_once(shipped.folder):
        task = msgspec.msgpack.decode(encoded, type=TaskInput)
        for cell in run_source_task(shipped.program(0), task, attempt=_attempt()):
            values = (shipped.labels[cell.slot], cell.level, cell.head, cell.body)
            columns = [pa.array([value], field.type) for value, field in zip(values, _CELL_ARROW, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=_CELL_ARROW)


def _attempt() -> int:
    """How often Spark tried the task under way before."""
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


class Subtask(StatefulProcessor):
    """The body of a level above 0: called once per subtask and epoch, with all its cells."""

    def __init__(self, shipped: Shipped, level: int) -> None:
        self._shipped, self._level = shipped, level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the level's pages."""
        self._state = handle.getMapState(STATE_NAME, KEY_SCHEMA, VALUE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Run the subtask that owns this slot."""
        labels = self._shipped.labels
        subtask = labels.index(key[0])
        cells = [Cell(subtask, row.level, bytes(row.head), bytes(row.body)) for row in rows]
        with carried_once(self._shipped.folder):
            program, pages = self._shipped.program(self._level), MapStatePages(self._state)
            for cell in run_subtask(program, subtask, cells, pages, attempt=_attempt()):
                yield Row(slot=labels[cell.slot], level=cell.level, head=cell.head, body=cell.body)

    def close(self) -> None:
        """Nothing to release: state belongs to Spark."""
