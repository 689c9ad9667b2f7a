"""The mark of a sink: which epochs of which lineage are written, and the highest token that came. All is decided from it.

Where the mark is kept together with the rows, an epoch is written once. It holds all lineages of a job's sink, so that a new one
sees what the others wrote and closes them in the same step.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Self

from millstream.errors import CheckpointRefused, Fenced
from millstream.model.connector import NewerOutput

KEPT_EPOCHS = 100
"""Epochs of a lineage behind these count as written."""
_FORMAT = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LineageMark:
    """What is known of one lineage."""

    token: int = 0
    is_closed: bool = False
    """Another lineage took over: this one writes nothing more."""
    low_water: int = -1
    """Epochs up to this one are written, and were forgotten."""
    last_filled: int = -1
    """The newest epoch that had rows."""
    digests: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Of each epoch that is written and not forgotten."""

    def with_epoch(self, epoch: int, digest: str, rows: int) -> Self:
        """The mark once an epoch is written."""
        known = {**self.digests, str(epoch): digest}
        low_water = max(self.low_water, max(map(int, known)) - KEPT_EPOCHS)
        return dataclasses.replace(
            self,
            low_water=low_water,
            last_filled=max(self.last_filled, epoch if rows else -1),
            digests={each: kept for each, kept in known.items() if int(each) > low_water},
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SinkMark:
    """All lineages of one sink."""

    lineages: Mapping[str, LineageMark] = dataclasses.field(default_factory=dict)

    def text(self) -> str:
        """As it is kept."""
        content = {name: dataclasses.asdict(mark) for name, mark in self.lineages.items()}
        return json.dumps({"format": _FORMAT, "lineages": content}, separators=(",", ":"), sort_keys=True)

    def of(self, lineage: str) -> LineageMark:
        """What is known of a lineage."""
        return self.lineages.get(lineage, LineageMark())

    def replaced(self, **marks: LineageMark) -> Self:
        """The mark with other lineages."""
        return dataclasses.replace(self, lineages={**self.lineages, **marks})


def read_mark(stored: str | bytes | None, *, step: str) -> SinkMark:
    """A mark as it was kept; nothing stands for one that was never written."""
    if stored is None:
        return SinkMark()
    try:
        content = json.loads(stored)
        if content["format"] != _FORMAT:
            raise _unreadable(step, f"format {content['format']}")
        return SinkMark({name: LineageMark(**fields) for name, fields in content["lineages"].items()})
    except (ValueError, KeyError, TypeError) as problem:
        raise _unreadable(step, repr(problem)) from None


def _unreadable(step: str, found: str) -> CheckpointRefused:
    msg = "the mark that is kept beside the rows is none that this program wrote"
    hint = "give ctx.is_due() the text that ctx.mark was, or None where there is none"
    return CheckpointRefused(msg, code="CONSUMER-005", step=step, found=found, hint=hint)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MarkOwner:
    """A run that writes: what it may do with the mark it finds. Each answer is the new mark, or nothing to write."""

    lineage: str
    step: str
    token: int

    def fence(self, found: SinkMark) -> SinkMark | None:
        """Take the sink over."""
        mark = found.of(self.lineage)
        if mark.is_closed or mark.token > self.token:
            raise self._fenced(mark)
        return None if mark.token == self.token else found.replaced(**{self.lineage: self._owned(mark)})

    def _owned(self, mark: LineageMark) -> LineageMark:
        return dataclasses.replace(mark, token=self.token)

    def publish(self, found: SinkMark, epoch: int, transaction: Any) -> SinkMark | None:
        """Write an epoch, unless it is written."""
        mark = found.of(self.lineage)
        self.fence(found)
        if mark.token != self.token:
            raise self._lost(mark)
        digest = mark.digests.get(str(epoch))
        if epoch <= mark.low_water or digest == transaction["digest"]:
            return None
        if digest is not None:
            raise self._changed(epoch, transaction["rows"])
        return found.replaced(**{self.lineage: mark.with_epoch(epoch, transaction["digest"], transaction["rows"])})

    def refuse_newer(self, found: SinkMark, history: Mapping[str, int]) -> None:
        """Raise where other lineages wrote beyond the history."""
        if beyond := self._beyond(found, history):
            msg = "the sink holds output beyond the point that this lineage starts from"
            hint = "pass --on-newer-output keep to leave it in place; what this sink has handed on cannot be taken back"
            raise CheckpointRefused(msg, code="SINK-003", step=self.step, found=beyond, known="refuse, keep", hint=hint)

    def succeed(self, found: SinkMark, history: Mapping[str, int], newer: NewerOutput) -> SinkMark:
        """Close all other lineages."""
        self.fence(found)
        if newer == "refuse":
            self.refuse_newer(found, history)
        elif newer == "truncate" and (beyond := self._beyond(found, history)):
            msg = "what this sink has handed on cannot be taken back, so newer output cannot be truncated"
            hint = "pass --on-newer-output keep"
            raise CheckpointRefused(msg, code="SINK-004", step=self.step, found=beyond, hint=hint)
        others = {*found.lineages, *history} - {self.lineage}
        closed = {name: dataclasses.replace(found.of(name), is_closed=True) for name in others}
        return found.replaced(**closed, **{self.lineage: self._owned(found.of(self.lineage))})

    def _beyond(self, found: SinkMark, history: Mapping[str, int]) -> str:
        newer = [
            f"lineage {name} up to epoch {mark.last_filled}"
            for name, mark in sorted(found.lineages.items())
            if name != self.lineage and mark.last_filled > history.get(name, -1)
        ]
        return ", ".join(newer)

    def _fenced(self, mark: LineageMark) -> Fenced:
        msg = "a later owner has taken over the sink"
        seen = "the lineage is closed" if mark.is_closed else f"token {mark.token}"
        hint = "end this run; the later one goes on"
        return Fenced(msg, step=self.step, found=f"token {self.token}", known=seen, hint=hint)

    def _lost(self, mark: LineageMark) -> CheckpointRefused:
        msg = "the mark that this run has left in the sink is not there any more"
        hint = "keep ctx.mark in the same transaction as the rows, under the name ctx.sink, and give it back to ctx.is_due()"
        found = f"a mark with token {mark.token}"
        return CheckpointRefused(msg, code="CONSUMER-006", step=self.step, found=found, known=self.token, hint=hint)

    def _changed(self, epoch: int, rows: int) -> CheckpointRefused:
        msg = f"epoch {epoch} is already published with other rows"
        hint = "the job is not deterministic, or two jobs share a lineage; start a new lineage"
        return CheckpointRefused(msg, code="SINK-001", step=self.step, found=f"{rows} rows", hint=hint)
