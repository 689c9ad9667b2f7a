"""What the parts of a statement share while they become steps: the job, the streams, and the options of `sql(...)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from millstream.api.join import checked_choice
from millstream.api.sql.refusal import OPTION, TABLE, UPDATES, Place
from millstream.api.sql.scope import Relation
from millstream.graph.expressions.refusal import nearest_first
from millstream.graph.rank import RANK_EMITS, RankEmit
from millstream.graph.step import Emit, Operation, StepInput

if TYPE_CHECKING:
    from millstream.api.job import Job
    from millstream.api.stream import DataStream

EMITS: tuple[Emit, ...] = ("epoch", "row", "end")
_MEANT_FOR = {
    "emit": "running aggregates, DISTINCT and rankings",
    "allowed_lateness": "windows",
    "uid": "statements that keep state",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The id of a step, and the uid under which checkpoints know its state if it is another one."""

    id: str
    uid: str | None = None

    def child(self, role: str) -> Names:
        """A step beside the one that bears the name of the statement."""
        return Names(id=f"{self.id}.{role}", uid=None if self.uid is None else f"{self.uid}.{role}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """A statement on its way into a job."""

    job: Job
    place: Place
    streams: Mapping[str, DataStream]
    emit: Emit | None
    lateness: int | None
    is_derived: bool
    """Whether the id of the statement was derived, and not given."""
    used: set[str] = dataclasses.field(default_factory=set)
    """Options that had an effect."""

    def step(self, operation: Operation, inputs: tuple[StepInput, ...], names: Names, *, state: bool) -> DataStream:
        """Add a step; one that holds state takes the uid."""
        uid = names.uid if state else None
        if state:
            self.used.add("uid")
        node = self.job.add(operation, inputs, given_id=names.id, uid=uid, is_derived=self.is_derived)
        return self.job.stream(node)

    def stream_named(self, name: str, at: exp.Expr) -> DataStream:
        """A stream by the name that FROM gives."""
        matches = [known for known in self.streams if known == name]
        matches = matches or [known for known in self.streams if known.lower() == name.lower()]
        if len(matches) != 1:
            problem = f"unknown table {name!r}"
            known = nearest_first(name, self.streams)
            hint = f"pass the stream by name: job.sql(..., {name}=...)"
            raise self.place.refuse(TABLE, problem, at=at, known=known, hint=hint)
        self.used.add(f"stream {matches[0]}")
        return self.streams[matches[0]]

    def running_emit(self) -> Emit:
        """When a running aggregate says its values."""
        self.used.add("emit")
        choice: Emit = checked_choice(self.emit or "epoch", EMITS, "emit")
        return choice

    def rank_emit(self) -> RankEmit:
        """When a step that keeps the best rows says them."""
        self.used.add("emit")
        choice: RankEmit = checked_choice(self.emit or "epoch", RANK_EMITS, "emit")
        return choice

    def window_lateness(self) -> int:
        """How long windows wait for late rows."""
        self.used.add("allowed_lateness")
        return self.lateness or 0

    def require_final(self, relation: Relation, what: str) -> None:
        """Rows that later rows replace must not be counted or joined: each would be taken twice."""
        if relation.is_updating:
            problem = f"{what} over rows that later rows replace"
            hint = "pass emit='end', or group by a window without allowed_lateness= inside"
            raise self.place.refuse(UPDATES, problem, hint=hint)

    def check_used(self, uid: str | None) -> None:
        """Refuse options and streams that had no effect."""
        given = {"emit": self.emit, "allowed_lateness": self.lateness, "uid": uid}
        for name, value in given.items():
            if value is not None and name not in self.used:
                problem = f"{name}= has no effect here: it is for {_MEANT_FOR[name]}"
                raise self.place.refuse(OPTION, problem, hint=f"remove {name}=")
        idle = [name for name in self.streams if f"stream {name}" not in self.used]
        if idle:
            problem = f"does not read the stream {idle[0]!r}"
            raise self.place.refuse(TABLE, problem, hint=f"write FROM {idle[0]}, or remove it")
