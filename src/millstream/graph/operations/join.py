"""Steps that bring rows of two streams, or of a stream and a table, together: values, and the columns they give."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.windows.window import WindowSpec
from millstream.model.schema import Field, Schema

How = Literal["inner", "left", "right", "full"]
HOWS: tuple[How, ...] = ("inner", "left", "right", "full")
LATE_RIGHT = "late_right"
"""The output of late rows of a join's right side; those of its left side are `late`."""
WINDOW_FIELDS = (
    Field("window_start", pa.timestamp("us", tz="UTC"), nullable=False),
    Field("window_end", pa.timestamp("us", tz="UTC"), nullable=False),
)


def _refuse(message: str, found: object, hint: str) -> InvalidStep:
    return InvalidStep(message, code="STEP-080", found=found, hint=hint)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Rows of two keyed streams with equal keys; with bounds on how far apart they happened, or for ever."""

    kind: ClassVar = "join"
    how: How = "inner"
    lower: int | None = None
    """With `upper`: lower ≤ time of the right row - time of the left row ≤ upper, in milliseconds."""
    upper: int | None = None
    where: str | None = None
    prefix: str | None = None
    keep: int | None = None
    """Without bounds: rows are forgotten that long after they came."""

    def __post_init__(self) -> None:
        if (self.lower is None) != (self.upper is None):
            msg = "within needs a lower and an upper bound"
            raise _refuse(msg, f"({self.lower}, {self.upper})", "write within=('-5m', '5m')")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            msg = "the lower bound of within lies above the upper one"
            raise _refuse(msg, f"({self.lower} ms, {self.upper} ms)", "swap the bounds")
        if self.is_bounded and self.keep is not None:
            msg = "a join with within= forgets rows by event time; keep= is for joins without"
            raise _refuse(msg, f"keep={self.keep} ms", "remove keep= or within=")
        if self.how != "inner" and not self.is_bounded:
            msg = f"a {self.how} join needs within= or a window: without, no row is ever known to have no partner"
            raise _refuse(msg, f"how={self.how!r}", "give within=(lower, upper), call .window(...), or join inner")

    @property
    def is_bounded(self) -> bool:
        """Whether event time bounds which rows may meet."""
        return self.lower is not None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WindowJoin:
    """Rows of two keyed streams with equal keys that happened in the same window."""

    kind: ClassVar = "window_join"
    window: WindowSpec
    how: How = "inner"
    where: str | None = None
    prefix: str | None = None
    lateness: int = 0

    def __post_init__(self) -> None:
        if self.window.kind not in {"tumbling", "sliding"}:
            msg = "a window join needs windows that are the same for both sides"
            raise _refuse(msg, self.window.kind, "use ms.tumbling(...) or ms.sliding(...)")
        if self.window.time != "event" or self.window.time_zone is not None:
            msg = "a window join goes by event time, in UTC"
            raise _refuse(msg, self.window.describe(), "remove time= and time_zone=")
        if self.lateness < 0:
            msg = "allowed_lateness is below zero"
            raise _refuse(msg, f"{self.lateness} ms", "correct allowed_lateness=")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TemporalJoin:
    """Each row of the left stream with the version of its key that was valid when it happened."""

    kind: ClassVar = "temporal_join"
    how: Literal["inner", "left"] = "inner"
    prefix: str | None = None


JoinOperation = Join | WindowJoin | TemporalJoin
JOINS = (Join, WindowJoin, TemporalJoin)


def needs_event_time(operation: object) -> bool:
    """Whether both sides of a join must have event time."""
    return isinstance(operation, (WindowJoin, TemporalJoin)) or (isinstance(operation, Join) and operation.is_bounded)


def right_names(left: Schema, right: Schema, prefix: str | None, step: str | None) -> list[str]:
    """How the columns of the right side are called behind a join."""
    names = [name if name not in left or prefix is None else f"{prefix}{name}" for name in right.names]
    taken = [*left.names, *names]
    doubled = sorted({name for name in taken if taken.count(name) > 1})
    if doubled:
        msg = "both sides of the join have columns of the same name"
        raise InvalidStep(
            msg,
            code="STEP-081",
            step=step,
            found=", ".join(doubled),
            hint="give prefix='right_' for those of the right side, or select other names before",
        )
    return names


def joined_schema(left: Schema, right: Schema, operation: JoinOperation, step: str | None) -> Schema:
    """The columns of both sides; those of a side whose rows may be missing are nullable."""
    names = right_names(left, right, operation.prefix, step)
    misses_left, misses_right = operation.how in {"right", "full"}, operation.how in {"left", "full"}
    fields = [Field(field.name, field.type, field.nullable or misses_left) for field in left]
    fields += [
        Field(name, field.type, field.nullable or misses_right) for name, field in zip(names, right, strict=True)
    ]
    if isinstance(operation, WindowJoin):
        clashes = [field.name for field in WINDOW_FIELDS if any(field.name == other.name for other in fields)]
        if clashes:
            msg = "a window join adds columns window_start and window_end, which are there already"
            raise InvalidStep(msg, code="STEP-081", step=step, found=clashes, hint="select other names before")
        fields += WINDOW_FIELDS
    return Schema(tuple(fields))
