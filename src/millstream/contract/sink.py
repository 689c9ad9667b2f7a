"""What a sink implements: writers that run in the workers and stage rows, and a committer on the driver that publishes them.

Commit messages and transactions are JSON values: they stand in manifests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from millstream.model.connector import NewerOutput
from millstream.model.ids import Epoch
from millstream.model.schema import Schema


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
    staging: str = ""
    """A folder of the checkpoint for this sink and lineage, which the committer reaches too; whoever writes first makes it."""


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
class Removed:
    """What became of rows that were to be removed from a sink's target."""

    rows: int
    """Gone."""
    kept: int = 0
    """Chosen, and still there."""
    why: str = ""
    """Why those are."""


def _unwatched() -> None:
    """Nobody waits."""


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
    staging: str = ""
    """The folder that `SinkTask.staging` names. Beside it lie those of other lineages of this sink."""
    same_run: tuple[tuple[str, int], ...] = ()
    """Earlier lineages of the same run, with the last epoch of each that counts: a savepoint inside a run goes on with it. What
    they wrote belongs to the result of the run."""
    heartbeat: Callable[[], None] = _unwatched
    """To be called now and then by a long `publish`: raises once the run has lost its lease."""


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
        """Drop staged output that will never be published; nothing once a higher token has fenced the sink: its owner decides."""
        ...

    def recover(self, durable: Epoch | None) -> None:
        """On start, once `durable` is published: drop what was staged and will never be published.

        The token is checked in the same step: to a late owner the work of its successor would look like leftovers.
        """
        ...

    def close(self) -> None:
        """Release what was opened."""
        ...
