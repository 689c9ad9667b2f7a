"""The books that a task keeps while its stages and operators run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from millstream.graph.outputs import OnError
from millstream.model.counts import StepCounts
from millstream.runtime.bad_records import BadRecords
from millstream.runtime.vertex_clock import VertexClock


class Ledger:
    """The books of a task: what became of the rows of each step, its bad records, and the clock of the epoch."""

    def __init__(self, counts: Callable[[str], StepCounts], now: int, clock: VertexClock | None = None) -> None:
        self.count = counts
        self.now = now
        self.clock = clock or VertexClock({}, {})
        self._bad: dict[str, BadRecords] = {}
        self.is_replaying = False
        """Whether the rows at work are those of dead letters: their event times move no watermark."""

    def bad_records(self, step: str, on_error: OnError | None) -> BadRecords:
        """The policy of a step, kept for the life of the task; `None` where a step offers no choice."""
        if step not in self._bad:
            self._bad[step] = BadRecords(step, on_error, self.count(step), self.now)
        return self._bad[step]

    def dead_letters(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Dead letters by step since the last call."""
        # Dead letters may run through Python steps, which add policies of their own while they are handed on.
        for step, bad in list(self._bad.items()):
            letters = bad.take_letters()
            if letters is not None:
                yield step, letters

    def saw_times(self, step: str, newest: int, *, rows: int, mark: int | None) -> None:
        """An event-time step met that many rows, this newest event time, and a mark if they carried one."""
