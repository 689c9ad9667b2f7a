"""Patterns that a broadcast stream brings, replaces and takes away while the job runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.operation import Edge, Operation, Outputs, PlacedStep, ResolvedStep
from millstream.graph.operations.rank import check_instant_order
from millstream.graph.outputs import DEAD_SCHEMA, key_fields
from millstream.graph.step import DEAD, LATE, MAIN, TIMED_OUT
from millstream.model.schema import Field, Schema

OnUpdate = Literal["restart", "keep"]
ON_UPDATES: tuple[OnUpdate, ...] = ("restart", "keep")
RULE, DEFINITION, VERSION, DELETED = "rule", "pattern", "version", "deleted"
"""The columns of the broadcast stream; the last two may be left out."""
MATCH = "match"
_TYPES = {
    RULE: (pa.string(),),
    DEFINITION: (pa.string(),),
    VERSION: (pa.int64(), pa.int32()),
    DELETED: (pa.bool_(),),
}
_NEEDED = (RULE, DEFINITION)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patterns(Operation):
    """Looks for all patterns that the second, broadcast input has brought so far."""

    kind = "patterns"
    runs_as = "keyed"
    takes = "pair"
    may_be_single = True
    on_update: OnUpdate = "restart"
    """What happens to the partial matches of a pattern that is replaced: they are dropped, or they run out."""
    order_by: tuple[str, ...] = ()
    """Columns by which rows of one instant are put in order."""

    def __post_init__(self) -> None:
        if self.on_update not in ON_UPDATES:
            msg = "partial matches of a replaced pattern are dropped, or they run out"
            raise InvalidStep(
                msg, code="STEP-182", found=repr(self.on_update), known=ON_UPDATES, hint="correct on_update="
            )

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """Matches and what timed out, late rows, and updates that bring no pattern."""
        rows, updates = schemas
        check_instant_order(self.order_by, rows, step.id)
        _check_updates(step.inputs[1].partition, updates, step.id)
        matches = _matches(Schema(key_fields(step, rows)), step.id)
        return (), {MAIN: matches, TIMED_OUT: matches, LATE: rows, DEAD: DEAD_SCHEMA}

    def describe(self) -> str:
        """What becomes of partial matches when a pattern is replaced."""
        return f"every pattern that was brought; {self.on_update} on update"

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """Rows that wait for the watermark are kept in that order."""
        del node
        return {"order_by": list(self.order_by)}

    def timed_inputs(self, step: PlacedStep) -> Sequence[Edge]:
        """Rows that bring patterns have no time: they must not hold back the watermark of the others."""
        return step.inputs[:1]


def _check_updates(partition: str, updates: Schema, step: str) -> None:
    """Refuse a stream that is not broadcast, or whose rows cannot be patterns."""
    if partition != "broadcast":
        msg = "patterns are brought by a broadcast stream"
        raise InvalidStep(msg, code="STEP-188", step=step, found=partition, hint="pass rules.broadcast()")
    for name, kinds in _TYPES.items():
        is_wrong = name in updates and updates[name].type not in kinds
        if is_wrong or (name in _NEEDED and name not in updates):
            msg = f"rows that bring patterns need a column {name!r} of another type" if is_wrong else ""
            raise InvalidStep(
                msg or f"rows that bring patterns need a column {name!r}",
                code="STEP-181",
                step=step,
                found=updates.ddl,
                known="rule string, pattern string, version long, deleted boolean; the last two may be left out",
                hint="select these columns before broadcast()",
            )


def _matches(keys: Schema, step: str) -> Schema:
    """What a match of any pattern gives: columns cannot change while a job runs, so measures are one text."""
    taken = [name for name in (RULE, VERSION, MATCH) if name in keys]
    if taken:
        msg = "a key column has the name of a column that matches have"
        raise InvalidStep(
            msg, code="STEP-183", step=step, found=", ".join(taken), hint="rename it with select() before key_by"
        )
    named = (Field(RULE, pa.string(), nullable=False), Field(VERSION, pa.int64(), nullable=False))
    return Schema((*named, *keys, Field(MATCH, pa.string(), nullable=False)))
