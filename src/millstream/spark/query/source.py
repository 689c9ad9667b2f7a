"""The streaming source of every query: level 0 of its plan.

What to read is the planner's to say, in the driver process; reading it and running level 0 happens in the tasks of the
source, so that a task needs one Python worker and not two.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from millstream.spark.query.level import CELL_SCHEMA, Shipped, run_level_0

FORMAT = "millstream"
PLANNER = "planner"
"""Option: path of the planner's socket."""


class TaskPartition(InputPartition):
    """One level-0 task, encoded."""

    def __init__(self, task: bytes) -> None:
        self.task = task


class SplitStream(DataSourceStreamReader):
    """Plans in one process beside the driver, where every decision is the planner's; reads in the workers."""

    def __init__(self, path: str, shipped: Shipped) -> None:
        self._path, self._shipped = path, shipped
        self._wire: Any = None

    def _ask(self, request: dict[str, Any]) -> Any:
        if self._wire is None:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self._path)
            self._wire = connection.makefile("rwb")
        self._wire.write(json.dumps(request).encode() + b"\n")
        self._wire.flush()
        line = self._wire.readline()
        answer = json.loads(line) if line else {"error": "the planner is gone"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]

    def initialOffset(self) -> dict[str, Any]:
        """What stands before the first epoch."""
        plan: dict[str, Any] = self._ask({"op": "initial"})
        return plan

    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:
        """The next epoch's plan, or the last one again when nothing is due."""
        plan: dict[str, Any] = self._ask({"op": "next", "last": start})
        return plan

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of the epoch between two plans; at least one, so that timers run without rows."""
        return [TaskPartition(bytes.fromhex(task)) for task in self._ask({"op": "tasks", "start": start, "end": end})]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run the task: read its splits, and give out the cells its rows become."""
        assert isinstance(partition, TaskPartition)
        return run_level_0(self._shipped, partition.task)


class MillstreamSource(DataSource):
    """Registered as `millstream`, for one plan: see `source_of`."""

    shipped: Shipped

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return FORMAT

    def schema(self) -> str:
        """One cell per row."""
        return CELL_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Open the stream."""
        return SplitStream(self.options[PLANNER], self.shipped)


def source_of(shipped: Shipped) -> type[MillstreamSource]:
    """The source of one plan. A class made here travels by value, and the plan with it."""
    return type("PlannedSource", (MillstreamSource,), {"shipped": shipped})
