"""What a source implements: an enumerator that runs on the driver, and readers that run in the workers.

Positions and split bodies are JSON values: they stand in Spark's offset log and in manifests. Code is named by the connector's
declaration (`module:attribute`) and loaded through the registry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from millstream.model.schema import Schema

Position = Any
"""A JSON value: everything before it has been read. `None` never occurs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A piece of one epoch's input, read by one task. `partition` names whose watermark its rows advance."""

    partition: str
    body: Any
    rows: int = 0
    """Estimated rows, used to spread splits evenly over tasks."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """How far one epoch reads a source."""

    position: Position
    finished: bool = False
    """Nothing will ever follow `position`."""
    lag: int | None = None
    """Rows known to wait behind `position`."""
    watermark: int | None = None
    """A watermark the source states itself, instead of one derived from event times."""
    now: int | None = None
    """A scripted clock, for tests."""
    partitions: Collection[str] = ()
    """Partitions the source is known to have: those that have shown nothing yet hold the watermark back."""


@dataclasses.dataclass(frozen=True, slots=True)
class BadRecord:
    """Input that could not be decoded; the source's `on_error` policy decides what becomes of it."""

    raw: str
    error: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What an enumerator may use: its step id, its schema and a folder of its own inside the checkpoint."""

    step: str
    schema: Schema
    log_dir: Path | None
    parallelism: int
    token: int = 1
    """Fencing token of the run: rises with every owner. What two owners might write at once bears it in its name."""


class SplitEnumerator(Protocol):
    """Decides what to read. Opened as `enumerator(options, context)`.

    `splits(start, end)` must give the same splits every time it is asked, also after a restart: a replayed epoch reads
    the same rows. What it needs for that goes into the position or, before `advance` returns, durably into `log_dir`.
    """

    def initial(self) -> Position:
        """The position before the first row."""
        ...

    def advance(self, start: Position, credit: int) -> Advance:
        """How far to read from `start` with a credit of about that many rows; the same position when nothing is new.

        With a credit of 0 nothing is read: the source waits for others, and is asked only how much waits there.
        """
        ...

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """The splits between two positions, in the order their rows are to be read."""
        ...

    def acknowledge(self, position: Position) -> None:
        """Everything before `position` is published."""
        ...

    def close(self) -> None:
        """Release what was opened."""
        ...


@runtime_checkable
class SelectiveEnumerator(SplitEnumerator, Protocol):
    """An enumerator that can leave out partitions which are ahead of others in their alignment group."""

    def advance_without(self, start: Position, credit: int, paused: Collection[str]) -> Advance:
        """As `advance`, without rows of some partitions, by their names.

        If rows of the others can only be had behind rows of these, these are read all the same.
        """
        ...


class SplitReader(Protocol):
    """Reads one split in a worker. Opened as `reader(options, schema)`; yields batches with exactly the schema's columns."""

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """The rows of a split body, in a fixed order."""
        ...
