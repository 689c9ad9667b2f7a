"""Steps that bring rows of two streams, or of a stream and a table, together: values, and the columns they give."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from millstream.errors import InvalidStep
from millstream.graph.expressions.expression import parse_predicate
from millstream.graph.operation import Operation, Outputs, PlacedStep
from millstream.graph.step import LATE, MAIN
from millstream.graph.texts import ExpressionText
from millstream.graph.windows.window import WINDOW_FIELDS, WindowSpec, duration_text
from millstream.model.ids import StepId
from millstream.model.schema import Field, Schema

How = Literal["inner", "left", "right", "full"]
HOWS: tuple[How, ...] = ("inner", "left", "right", "full")
LATE_RIGHT = "late_right"
"""The output of late rows of a join's right side; those of its left side are `late`."""


def _refuse(message: str, given: object, hint: str) -> InvalidStep:
    return InvalidStep(message, code="STEP-080", found=given, hint=hint)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Join(Operation):
    """Rows of two keyed streams with equal keys; with bounds on how far apart they happened, or for ever."""

    kind = "join"
    runs_as = "keyed"
    takes = "pair"
    how: How = "inner"
    lower: int | None = None
    """With `upper`: lower ≤ time of the right row - time of the left row ≤ upper, in milliseconds."""
    upper: int | None = None
    where: ExpressionText | None = None
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

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """Pairs of rows, and late ones of either side where event time bounds which rows may meet."""
        main = Schema(_joined_fields(schemas, self.how, self.prefix, step.id))
        return _paired(main, self.where, step.id, _late(schemas) if self.is_bounded else {})

    def describe(self) -> str:
        """How rows are paired."""
        parts: list[str] = [self.how]
        if self.lower is not None and self.upper is not None:
            parts.append(f"within {duration_text(self.lower)} to {duration_text(self.upper)}")
        parts += [] if self.keep is None else [f"rows kept {duration_text(self.keep)}"]
        parts += [] if self.where is None else [f"where {self.where}"]
        return ", ".join(parts)

    def check_times(self, step: PlacedStep, times: Sequence[Sequence[StepId]]) -> None:
        """Bounds are in event time."""
        if self.is_bounded:
            _refuse_untimed_side(step.id, times)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WindowJoin(Operation):
    """Rows of two keyed streams with equal keys that happened in the same window."""

    kind = "window_join"
    runs_as = "keyed"
    takes = "pair"
    window: WindowSpec
    how: How = "inner"
    where: ExpressionText | None = None
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

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """Pairs of rows with the bounds of their window, and late rows of either side."""
        fields = _joined_fields(schemas, self.how, self.prefix, step.id)
        clashes = [field.name for field in WINDOW_FIELDS if any(field.name == other.name for other in fields)]
        if clashes:
            msg = "a window join adds columns window_start and window_end, which are there already"
            raise InvalidStep(msg, code="STEP-081", step=step.id, found=clashes, hint="select other names before")
        return _paired(Schema((*fields, *WINDOW_FIELDS)), self.where, step.id, _late(schemas))

    def describe(self) -> str:
        """How rows are paired."""
        window = f"in {self.window.describe()}, allowed lateness {duration_text(self.lateness)}"
        return ", ".join([self.how, window, *([] if self.where is None else [f"where {self.where}"])])

    def check_times(self, step: PlacedStep, times: Sequence[Sequence[StepId]]) -> None:
        """Its windows are of event time."""
        _refuse_untimed_side(step.id, times)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TemporalJoin(Operation):
    """Each row of the left stream with the version of its key that was valid when it happened."""

    kind = "temporal_join"
    runs_as = "keyed"
    takes = "pair"
    how: Literal["inner", "left"] = "inner"
    prefix: str | None = None

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """Rows with their version, and late ones of either side."""
        main = Schema(_joined_fields(schemas, self.how, self.prefix, step.id))
        return (), {MAIN: main, **_late(schemas)}

    def describe(self) -> str:
        """How rows are paired."""
        return f"{self.how}, as of the time of the left row"

    def check_times(self, step: PlacedStep, times: Sequence[Sequence[StepId]]) -> None:
        """Versions are valid from their event time on."""
        _refuse_untimed_side(step.id, times)


JoinOperation = Join | WindowJoin | TemporalJoin
JOINS = (Join, WindowJoin, TemporalJoin)


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


def _joined_fields(schemas: Sequence[Schema], how: How, prefix: str | None, step: str) -> tuple[Field, ...]:
    """The columns of both sides; those of a side whose rows may be missing are nullable."""
    left, right = schemas
    names = right_names(left, right, prefix, step)
    misses_left, misses_right = how in {"right", "full"}, how in {"left", "full"}
    mine = (Field(field.name, field.type, field.nullable or misses_left) for field in left)
    renamed = zip(names, right, strict=True)
    return (*mine, *(Field(name, field.type, field.nullable or misses_right) for name, field in renamed))


def _paired(main: Schema, where: str | None, step: str, late: dict[str, Schema]) -> Outputs:
    expressions = () if where is None else (("where", parse_predicate(where, main, step=step)),)
    return expressions, {MAIN: main, **late}


def _late(schemas: Sequence[Schema]) -> dict[str, Schema]:
    return {LATE: schemas[0], LATE_RIGHT: schemas[1]}


def _refuse_untimed_side(step: str, times: Sequence[Sequence[StepId]]) -> None:
    if not all(times):
        msg = "this join needs event time on both sides"
        raise InvalidStep(msg, code="STEP-040", step=step, hint="call .event_time('column') on both before key_by")
