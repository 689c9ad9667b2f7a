"""What a Python condition may ask: the rows that the match has taken so far, and the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.errors import InvalidStep
from millstream.runtime.operators.pattern.buffer import BufferNode, HeldEvent


class MatchContext:
    """What a Python condition sees of the match so far."""

    __slots__ = ("_names", "_node", "_stages", "processing_time", "timestamp")

    def __init__(
        self,
        node: BufferNode | None,
        event: HeldEvent,
        stages: dict[str, int],
        names: Sequence[str],
        processing_time: int,
    ) -> None:
        self._node, self._stages, self._names = node, stages, names
        self.timestamp = event.time
        """The time of the row under test."""
        self.processing_time = processing_time
        """The clock of the epoch in which the row is tried; a replay sees the same."""

    def events(self, stage: str) -> list[dict[str, Any]]:
        """The rows a stage has taken so far, in their order; the row under test is none of them yet."""
        if stage not in self._stages:
            msg = f"unknown stage {stage!r}"
            raise InvalidStep(msg, code="STEP-109", known=self._stages, hint="name a stage of the pattern")
        wanted, records, node = self._stages[stage], [], self._node
        while node is not None:
            if node.stage == wanted:
                records.append(record_of(node.event, self._names))
            node = node.before
        return records[::-1]


def record_of(event: HeldEvent, names: Sequence[str]) -> dict[str, Any]:
    """A row as a dict, made once."""
    if event.record is None:
        event.record = dict(zip(names, event.row, strict=True))
    return event.record
