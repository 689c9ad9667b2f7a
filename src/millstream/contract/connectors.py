"""The contract of connectors: enumerators and committers run on the driver, readers and writers in the workers.

Positions, split bodies, commit messages and transactions are JSON values: they stand in Spark's offset log and in
manifests. A connector's code is named by its declaration (`module:attribute`) and loaded here.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from millstream.model.connector import NewerOutput, Options
from millstream.model.ids import Epoch
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SinkTask:
    """Who writes: one subtask's attempt at one epoch of one sink."""

    job: str
    lineage: str
    step: str
    epoch: Epoch
    task: str
    """Unique in the epoch and equal on replay, such as `0-3` (level and subtask)."""
    attempt: str
    """Differs for every attempt; belongs in staging names only."""
    token: int = 1
    """Fencing token of the run that writes."""


class SinkWriter(Protocol):
    """Stages rows in a worker. Opened as `writer(options, schema, task)`. Nothing it does may be visible to readers."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Stage a batch."""
        ...

    def finish(self) -> Any:
        """Make what was staged durable and return the commit message; `None` when there were no rows."""
        ...

    def abort(self) -> None:
        """Drop what was staged."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """Whose sink it is; the identity of a transaction is (job, lineage, step, epoch)."""

    job: str
    lineage: str
    step: str
    schema: Schema
    token: int = 1
    """Fencing token of the run: `publish` is refused once a higher one fenced the sink."""
    is_direct: bool = False
    """Whether the tasks write rows where readers see them at once, so that there is nothing to publish."""


class SinkCommitter(Protocol):
    """Publishes on the driver. Opened as `committer(options, context)`.

    On start come `fence`, then `succeed` if the lineage is a new one, then `publish` of what is durable, then `recover`.
    """

    def fence(self) -> None:
        """Refuse every earlier owner of this (job, lineage, step) from now on; `Fenced` if a later one was here."""
        ...

    def check_newer(self, history: Sequence[tuple[str, int]]) -> None:
        """Raise when there is output of this job and step beyond the history; changes nothing."""
        ...

    def succeed(self, history: Sequence[tuple[str, int]], newer: NewerOutput) -> None:
        """Take over from earlier lineages of this job and step. `history` gives the last epoch of each that counts.

        No other lineage may publish any more. Output beyond the history is refused with an error (`refuse`), left (`keep`)
        or removed (`truncate`). Repeating the call changes nothing. The token is checked in the same step: a call that
        comes late raises `Fenced` and closes nothing.
        """
        ...

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """Turn the epoch's commit messages into a transaction, a JSON value that goes into the manifest."""
        ...

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Make the epoch visible, all of it or nothing, in one step that also checks the token.

        Repeating it changes nothing, also after a lost reply; other content must raise, a raised fence raises `Fenced`.
        """
        ...

    def discard(self, messages: Sequence[Any]) -> None:
        """Drop staged output that will never be published."""
        ...

    def recover(self, durable: Epoch | None) -> None:
        """On start, once `durable` is published: drop what was staged and will never be published.

        The token is checked in the same step: to a late owner the work of its successor would look like leftovers.
        """
        ...

    def close(self) -> None:
        """Release what was opened."""
        ...


def load(reference: str) -> Any:
    """The object named `module:attribute`."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def open_reader(reference: str, options: Options, schema: Schema) -> SplitReader:
    """Open a reader by its declared name."""
    reader: SplitReader = load(reference)(options, schema)
    return reader
