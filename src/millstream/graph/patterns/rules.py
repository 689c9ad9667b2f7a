"""Patterns that a broadcast stream brings, replaces and takes away while the job runs."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import pyarrow as pa

from millstream.errors import InvalidStep
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
class Patterns:
    """Looks for all patterns that the second, broadcast input has brought so far."""

    kind: ClassVar = "patterns"
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


def check_updates(partition: str, updates: Schema, step: str) -> None:
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


def rule_matches(keys: Schema, step: str) -> Schema:
    """What a match of any pattern gives: columns cannot change while a job runs, so measures are one text."""
    taken = [name for name in (RULE, VERSION, MATCH) if name in keys]
    if taken:
        msg = "a key column has the name of a column that matches have"
        raise InvalidStep(
            msg, code="STEP-183", step=step, found=", ".join(taken), hint="rename it with select() before key_by"
        )
    named = (Field(RULE, pa.string(), nullable=False), Field(VERSION, pa.int64(), nullable=False))
    return Schema((*named, *keys, Field(MATCH, pa.string(), nullable=False)))
