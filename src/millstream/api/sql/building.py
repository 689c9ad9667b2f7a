"""What the parts of a statement share while they become steps: the job, the streams, and the options of `sql(...)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlglot import exp

from millstream.api.sql.refusal import OPTION, TABLE, UPDATES, Place
from millstream.api.sql.relation import Relation, relation_of
from millstream.api.streams.aggregates import EMITS
from millstream.api.streams.choices import checked_choice
from millstream.api.streams.output import StreamJob
from millstream.api.streams.stream import DataStream
from millstream.graph.expressions.refusal import nearest_first
from millstream.graph.operation import Operation
from millstream.graph.operations.aggregate import Emit
from millstream.graph.operations.rank import RANK_EMITS, RankEmit
from millstream.graph.step import StepInput

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

    job: StreamJob
    place: Place
    streams: Mapping[str, DataStream]
    emit: Emit | None
    lateness: int | None
    is_derived: bool
    """Whether the id of the statement was derived, and not given."""
    used: set[str] = dataclasses.field(default_factory=set)
    """Options that had an effect, and streams that are read."""
    tables: dict[str, Relation] = dataclasses.field(default_factory=dict)
    """What WITH names."""

    def step(self, operation: Operation, inputs: tuple[StepInput, ...], names: Names, *, state: bool) -> DataStream:
        """Add a step; one that holds state takes the uid."""
        uid = names.uid if state else None
        if state:
            self.used.add("uid")
        node = self.job._steps.add(operation, inputs, given_id=names.id, uid=uid, is_derived=self.is_derived)
        return DataStream(self.job, node)

    def relation_named(self, name: str, alias: str, at: exp.Expr) -> Relation:
        """A stream, or what WITH names, by the name that FROM gives."""
        names = [*self.tables, *self.streams]
        matches = [known for known in names if known == name]
        matches = matches or [known for known in names if known.lower() == name.lower()]
        if len(matches) != 1:
            hint = f"pass the stream by name: job.sql(..., {name}=...)"
            known = nearest_first(name, names)
            raise self.place.refuse(TABLE, f"unknown table {name!r}", at=at, known=known, hint=hint)
        table = matches[0]
        self.used.add(f"stream {table}")
        if table in self.streams:
            return relation_of(self.streams[table], alias or table)
        made = self.tables[table]
        return relation_of(made.stream, alias or table, is_updating=made.is_updating, stateful=made.stateful)

    def name_table(self, name: str, relation: Relation, at: exp.Expr) -> None:
        """Take what WITH names."""
        if name.lower() in {known.lower() for known in (*self.tables, *self.streams)}:
            raise self.place.refuse(TABLE, f"two tables are called {name!r}", at=at, hint="choose another name")
        self.tables[name] = relation

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
        idle = [name for name in (*self.streams, *self.tables) if f"stream {name}" not in self.used]
        if idle:
            problem = f"does not read {idle[0]!r}"
            raise self.place.refuse(TABLE, problem, hint=f"write FROM {idle[0]}, or remove it")
