"""What a source implements: an enumerator that runs on the driver, and readers that run in the workers.

Positions and split bodies are JSON values: they stand in Spark's offset log and in manifests. Code is named by the connector's
declaration (`module:attribute`) and loaded through the registry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

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


class Credit(int):
    """How much one epoch may admit of a source: a number of rows, and a limit in bytes for sources that know sizes."""

    bytes: int | None

    def __new__(cls, rows: int, *, bytes: int | None = None) -> Self:
        """`bytes` is `None` where only rows are limited."""
        made = super().__new__(cls, rows)
        made.bytes = bytes
        return made


class Ahead(NamedTuple):
    """What a source has fetched ahead of the epochs, in bytes."""

    held: int
    """What waits; what the epoch admits does not count."""
    room: int
    """How much may wait."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """How far one epoch reads a source, and what is known of what waits there. Partitions go by their names."""

    position: Position
    finished: bool = False
    """Nothing will ever follow `position`."""
    not_before: int = 0
    """Milliseconds since 1970: no use asking again sooner, whatever the job's interval. Rows of `position` are read now."""
    lag: int | None = None
    """Rows known to wait behind `position`."""
    lags: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The same by partition."""
    blocked: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Partitions that stand still, and why: for people."""
    retained: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Bytes that the outside keeps for this source alone until they are acknowledged, by partition: they may fill its disk."""
    ahead: Ahead | None = None
    """Of a source that fetches ahead."""
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Rows between start and `position` that are never read, by reason. The plan records them."""
    watermark: int | None = None
    """A watermark the source states itself, instead of one derived from event times."""
    watermarks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The same by partition; it holds once `position` is reached."""
    now: int | None = None
    """A scripted clock, for tests."""
    partitions: Collection[str] = ()
    """Partitions the source is known to have: those that have shown nothing yet hold the watermark back."""
    drained: Collection[str] | None = None
    """Partitions in which nothing waits and of which nothing is read now: only they can be idle. `None`: it cannot tell."""


@dataclasses.dataclass(frozen=True, slots=True)
class BadRecord:
    """Input that could not be decoded; the source's `on_error` policy decides what becomes of it."""

    raw: str | bytes
    """As it came; bytes where it is no text."""
    error: str
    origin: str = ""
    """Where it stands outside, such as `orders/0@17`, so that a person finds it there."""


@dataclasses.dataclass(frozen=True, slots=True)
class LostRows:
    """Rows that a plan names and that are gone outside, where the user accepts it. They are counted, by reason."""

    rows: int
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What an enumerator may use: its step id, its schema and a folder of its own inside the checkpoint."""

    step: str
    schema: Schema
    log_dir: Path | None
    """Workers reach it by the same path, on several machines through a shared mount. `None` only without a checkpoint."""
    parallelism: int
    token: int = 1
    """Fencing token of the run: rises with every owner. What two owners might write at once bears it in its name."""
    job: str = ""
    lineage: str = ""


class SplitEnumerator(Protocol):
    """Decides what to read. Opened as `enumerator(options, context)`.

    `splits(start, end)` must give the same splits every time it is asked, also after a restart: a replayed epoch reads
    the same rows. What it needs for that goes into the position or, before `advance` returns, durably into `log_dir`.

    It may fetch ahead in a thread of its own, bounded by bytes; what goes wrong there is raised by the next `advance`. A split is
    read to its end within its epoch, always: a source that proves slow gets a smaller credit for the next one.
    """

    def initial(self) -> Position:
        """The position before the first row, the same whenever it is asked, also by another owner: see `decided_once`."""
        ...

    def advance(self, start: Position, credit: Credit) -> Advance:
        """How far to read from `start` with a credit of about that many rows; the same position when nothing is new.

        With a credit of 0 nothing is read: the source waits for others, and is asked only how much waits there.
        It does not wait for rows, nor longer than about 100 ms for anything; what is away outside is an `ExternalFailure`.
        """
        ...

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """The splits between two positions, in the order their rows are to be read."""
        ...

    def acknowledge(self, position: Position) -> None:
        """Everything before `position` is published. It may come again, and late, but no later position came before it."""
        ...

    def close(self) -> None:
        """Release what was opened."""
        ...


@runtime_checkable
class SelectiveEnumerator(SplitEnumerator, Protocol):
    """An enumerator that can leave out partitions which are ahead of others in their alignment group."""

    def advance_without(self, start: Position, credit: Credit, paused: Collection[str]) -> Advance:
        """As `advance`, without rows of some partitions, by their names.

        If rows of the others can only be had behind rows of these, these are read all the same.
        """
        ...


@runtime_checkable
class RerunEnumerator(SplitEnumerator, Protocol):
    """An enumerator that decides something for a whole run, such as where a source ends, and anew for the next one."""

    def next_run(self, position: Position) -> Position:
        """Where a run begins whose predecessor ended at `position`; like `initial`, the same whenever it is asked.

        `log_dir` holds what the run before left there. What is decided now bears the context's `lineage` in its name, since a
        decision of that run may be there too.
        """
        ...


class SplitReader(Protocol):
    """Reads splits in a worker. Opened as `reader(options, schema)`, once for all splits of a source in a task."""

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord | LostRows]:
        """The rows of a split body, in a fixed order, in batches with exactly the schema's columns."""
        ...

    def close(self) -> None:
        """The task has ended, or failed. Connections may be kept in the process for the next task."""
        ...
