"""Event time: the column that says when rows happened, and the strategy by which the watermark of a partition follows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.changes import IncomingChanges
from millstream.graph.expressions.expression import parse_predicate
from millstream.graph.function import FunctionRef
from millstream.graph.operation import Operation, Outputs, OverChanges, PlacedStep
from millstream.graph.outputs import OnError, column_of, with_dead
from millstream.graph.step import MAIN
from millstream.graph.texts import ExpressionText
from millstream.graph.windows.window import duration_text
from millstream.model.ids import StepId
from millstream.model.schema import Schema

WatermarkKind = Literal["ascending", "punctuated", "none"]
_TIME_TYPES = (pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.int64())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkSpec:
    """How the watermark of a partition follows its rows, where that is not a bounded delay."""

    kind: WatermarkKind
    where: ExpressionText | None = None
    """Punctuated: which rows carry a watermark."""
    column: str | None = None
    """Punctuated: the column that holds it, where it is not the event time."""

    def __post_init__(self) -> None:
        if (self.kind == "punctuated") != (self.where is not None) or (self.column is not None and self.where is None):
            msg = "a punctuated watermark says which rows carry it, and no other kind does"
            raise InvalidStep(
                msg, code="STEP-164", found=str(self), hint="write ms.watermark.punctuated(where='kind = ...')"
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EventTime(Operation):
    """Names the column that says when a row happened, and how far rows may be out of order."""

    kind = "event_time"
    runs_as = "batch"
    declares_time = True
    column: str
    max_delay: int = 0
    idle_after: int | None = None
    watermark: WatermarkSpec | None = None
    """Another strategy than a bounded delay."""
    function: FunctionRef | None = None
    """A generator of the user's, instead of a strategy of ours."""
    interval: int | None = None
    """The watermark moves at most once in that time of the epoch clock."""
    align: str | None = None
    """The alignment group of its sources."""
    max_drift: int | None = None
    """How far they may run ahead of the slowest member of the group."""
    on_error: OnError = "fail"
    """What becomes of rows that have no event time, or one at which nothing can have happened."""

    def __post_init__(self) -> None:
        for name in ("max_delay", "idle_after", "interval", "max_drift"):
            duration = getattr(self, name)
            if duration is not None and duration < 0:
                msg = f"{name} is below zero"
                raise InvalidStep(msg, code="STEP-023", found=f"{duration} ms", hint=f"correct {name}=")
        self._check_strategy()
        if (self.align is None) != (self.max_drift is None) or self.align == "":
            msg = "alignment needs a group and how far its members may drift apart"
            found_pair = f"align={self.align!r}, max_drift={self.max_drift!r}"
            raise InvalidStep(msg, code="STEP-162", found=found_pair, hint="align='group', max_drift='30s'")

    def _check_strategy(self) -> None:
        if (self.watermark is not None) + (self.function is not None) + (self.max_delay > 0) > 1:
            msg = "event_time takes max_delay, or watermark"
            raise InvalidStep(msg, code="STEP-160", hint="remove max_delay=, or use watermark.bounded()")
        if self.function is not None and not hasattr(self.function.target, "on_epoch"):
            msg = "watermark takes a WatermarkGenerator"
            raise InvalidStep(msg, code="STEP-161", found=self.function.name, hint="subclass ms.WatermarkGenerator")
        if self.function is not None and self.function.is_living:
            # It answers in the tasks and in the driver: what one of them opened, the other would not have.
            msg = "a watermark generator has no open and no close"
            raise InvalidStep(msg, code="STEP-264", found=self.function.name, hint="make what it needs in its methods")

    @property
    def strategy(self) -> str:
        """The strategy by name; marks and content that one strategy left are not read by another."""
        if self.function is not None:
            return self.function.name.partition("@")[0]
        return "bounded" if self.watermark is None else self.watermark.kind

    @property
    def is_marked(self) -> bool:
        """Whether the watermark comes from marks that the tasks find, rather than from the newest event time."""
        return self.function is not None or (self.watermark is not None and self.watermark.kind == "punctuated")

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in."""
        (schema,) = schemas
        self._check_columns(schema, step.id)
        where = None if self.watermark is None else self.watermark.where
        expressions = () if where is None else (("where", parse_predicate(where, schema, step=step.id)),)
        return expressions, with_dead({MAIN: schema}, self.on_error)

    def _check_columns(self, schema: Schema, step: str) -> None:
        carried = [] if self.watermark is None or self.watermark.column is None else [self.watermark.column]
        for field in (column_of(name, schema, step) for name in (self.column, *carried)):
            if field.type not in _TIME_TYPES:
                msg = f"column {field.name!r} cannot be event time"
                known = "timestamp, or long as milliseconds"
                raise InvalidStep(
                    msg, code="STEP-044", step=step, found=field.type_name, known=known, hint="cast it first"
                )

    def check_path(self, step: PlacedStep, before: Mapping[StepId, PlacedStep]) -> None:
        """Only sources can be told to wait, so event time that is aligned must be declared before rows change subtask."""
        edges = [] if self.align is None else list(step.inputs)
        while edges:
            edge = edges.pop()
            if edge.partition != "forward":
                msg = "only event time before the first key_by or rebalance can be aligned"
                where = f"{edge.partition} behind {edge.step!r}"
                raise InvalidStep(msg, code="STEP-163", step=step.id, found=where, hint="remove align=")
            edges += before[edge.step].inputs

    @property
    def error_policy(self) -> str:
        """As given."""
        return self.on_error

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """Rows stay as they are."""
        return self, changes.changelog

    def describe(self) -> str:
        """The column, and how the watermark follows it."""
        parts = [f"{self.column}, {self._strategy_text()}"]
        parts += [f"at most every {duration_text(self.interval)}"] if self.interval is not None else []
        parts += [f"idle after {duration_text(self.idle_after)}"] if self.idle_after is not None else []
        if self.max_drift is not None:
            parts.append(f"at most {duration_text(self.max_drift)} ahead in {self.align!r}")
        return ", ".join(parts)

    def _strategy_text(self) -> str:
        if self.function is not None:
            return f"watermark by {self.function.name}"
        if self.watermark is None:
            return f"at most {duration_text(self.max_delay)} late"
        if self.watermark.kind == "punctuated":
            carried = "" if self.watermark.column is None else f"{self.watermark.column} of "
            return f"watermark from {carried}rows where {self.watermark.where}"
        return "in order" if self.watermark.kind == "ascending" else "no watermark before the end"
