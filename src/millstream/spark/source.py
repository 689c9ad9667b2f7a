"""The streaming source of every query: one row per level-0 task. A thin client of the planner in the driver process."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

FORMAT = "millstream"
PLANNER = "planner"
"""Option: path of the planner's socket."""
SCHEMA = "task binary"
_ARROW = pa.schema([("task", pa.binary())])


class TaskPartition(InputPartition):
    """One level-0 task, encoded."""

    def __init__(self, task: bytes) -> None:
        self.task = task


class SplitStream(DataSourceStreamReader):
    """Lives in one process beside the driver; every decision is the planner's."""

    def __init__(self, path: str) -> None:
        self._path = path
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
        found: dict[str, Any] = self._ask({"op": "initial"})
        return found

    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:
        """The next epoch's plan, or the last one again when nothing is due."""
        found: dict[str, Any] = self._ask({"op": "next", "last": start})
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of the epoch between two plans; at least one, so that timers run without rows."""
        return [TaskPartition(bytes.fromhex(task)) for task in self._ask({"op": "tasks", "start": start, "end": end})]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The task itself: its splits are read one stage later, inside the fused chain."""
        assert isinstance(partition, TaskPartition)
        yield pa.RecordBatch.from_arrays([pa.array([partition.task], pa.binary())], schema=_ARROW)


class MillstreamSource(DataSource):
    """Registered as `millstream`."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return FORMAT

    def schema(self) -> str:
        """One encoded task per row."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Open the stream."""
        return SplitStream(self.options[PLANNER])
