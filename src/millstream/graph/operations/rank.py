"""Steps that keep the best rows of each key: the first N in an order (`top_n`), or one (`deduplicate`)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.operation import Operation, Outputs, PlacedStep, ResolvedStep
from millstream.graph.outputs import column_of
from millstream.graph.step import LATE, MAIN
from millstream.graph.windows.window import WINDOW_FIELDS, WindowSpec, duration_text, refuse_untimed
from millstream.model.ids import StepId
from millstream.model.schema import Field, Schema

RankEmit = Literal["epoch", "end"]
RANK_EMITS: tuple[RankEmit, ...] = ("epoch", "end")
Order = tuple[tuple[str, bool], ...]
"""Columns to order by, each with whether the largest value comes first."""
_PART = re.compile(r"\s*(?:`([^`]+)`|([A-Za-z_]\w*))(?:\s+(asc|desc))?\s*", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TopN(Operation):
    """The first N rows of each key in an order."""

    kind = "top_n"
    runs_as = "keyed"
    n: int
    by: str
    rank: str = "rank_number"
    ties: bool = False
    """Whether rows that are equal in the order share a rank, and all with a rank up to N are kept."""
    emit: RankEmit = "epoch"

    def __post_init__(self) -> None:
        if type(self.n) is not int or self.n < 1:
            msg = "n is not a whole number above zero"
            raise InvalidStep(msg, code="STEP-085", found=repr(self.n), hint="correct n")
        if self.ties and self.emit != "end":
            msg = "with ties several rows have one rank, so a newer row cannot replace an older one of its rank"
            raise InvalidStep(msg, code="STEP-085", found="ties=True", hint="use emit='end', or rank without ties")
        order_of(self.by)

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in, and the rank."""
        (rows,) = schemas
        _check_by(self.by, rows, step.id)
        return (), {MAIN: _with_rank(rows, self.rank, step.id)}

    def describe(self) -> str:
        """Which rows stay."""
        ties = ", with ties" if self.ties else ""
        return f"first {self.n} by {self.by}{ties}; emits per {self.emit}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate(Operation):
    """One row of each key: the first or the last to come, or in an order."""

    kind = "deduplicate"
    runs_as = "keyed"
    keep: Literal["first", "last"] = "first"
    by: str | None = None
    ttl: int | None = None
    emit: RankEmit = "epoch"

    def __post_init__(self) -> None:
        if self.ttl is not None and not self.is_first_come:
            msg = "ttl= is for the first row that comes; otherwise a forgotten row could come back"
            raise InvalidStep(msg, code="STEP-085", found=f"keep={self.keep!r}, by={self.by!r}", hint="remove ttl=")
        if self.by is not None:
            order_of(self.by)

    @property
    def is_first_come(self) -> bool:
        """Whether the first row to come stays for good, so that nothing but its key must be kept."""
        return self.keep == "first" and self.by is None and self.emit == "epoch"

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in."""
        (rows,) = schemas
        _check_by(self.by, rows, step.id)
        return (), {MAIN: rows}

    def describe(self) -> str:
        """Which row stays."""
        by = f" by {self.by}" if self.by is not None else ""
        ttl = f", keys kept {duration_text(self.ttl)}" if self.ttl is not None else ""
        return f"{self.keep}{by}{ttl}; emits per {self.emit}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WindowRank(Operation):
    """The first N rows of each key and window in an order. They are final when the window has passed, and said then."""

    kind = "window_rank"
    runs_as = "keyed"
    window: WindowSpec
    n: int
    by: str | None = None
    """`None`: the order in which rows come."""
    rank: str | None = None
    """The name of the column with the rank, if there is to be one."""
    ties: bool = False
    """Whether rows that are equal in the order share a rank, and all with a rank up to N are kept."""
    newest_first: bool = False
    """Whether of rows that are equal in the order the last to come is first."""
    lateness: int = 0

    def __post_init__(self) -> None:
        if type(self.n) is not int or self.n < 1:
            msg = "n is not a whole number above zero"
            raise InvalidStep(msg, code="STEP-085", found=repr(self.n), hint="correct n")
        if self.lateness < 0:
            msg = "allowed_lateness is below zero"
            raise InvalidStep(msg, code="STEP-023", found=f"{self.lateness} ms", hint="correct allowed_lateness=")
        if not self.window.is_event_timed or self.window.kind == "session":
            msg = "rows are ranked in tumbling, sliding and cumulative windows of event time"
            raise InvalidStep(
                msg, code="STEP-242", found=self.window.describe(), hint="use one of those, or .process(...)"
            )
        if self.by is not None:
            order_of(self.by)

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in, the bounds of the window and the rank if there is to be one; and late rows."""
        (rows,) = schemas
        _check_by(self.by, rows, step.id)
        bounded = _with_bounds(rows, step.id)
        ranked = bounded if self.rank is None else _with_rank(bounded, self.rank, step.id)
        return (), {MAIN: ranked, LATE: rows}

    def describe(self) -> str:
        """Which rows stay."""
        order = "as they come" if self.by is None else f"by {self.by}"
        equal = ", with ties" if self.ties else ", of equal rows the newest" if self.newest_first else ""
        return f"first {self.n} {order}{equal}; when the window has passed"

    def facts(self) -> Iterator[tuple[str, str]]:
        """The window."""
        yield "window", self.window.describe_with(self.lateness)

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """The window."""
        del node
        return {"window": self.window.stored}

    def check_times(self, step: PlacedStep, times: Sequence[Sequence[StepId]]) -> None:
        """Its windows are of event time."""
        refuse_untimed(step.id, times)


RANKS = (TopN, Deduplicate, WindowRank)


def order_of(text: str) -> Order:
    """`price desc, event_id` as columns with their direction."""
    parts = [_PART.fullmatch(part) for part in text.split(",")] if isinstance(text, str) else [None]
    order = tuple((part[1] or part[2], (part[3] or "asc").lower() == "desc") for part in parts if part is not None)
    if len(order) != len(parts) or len({name for name, _ in order}) != len(order):
        msg = "not an order"
        raise InvalidStep(
            msg, code="STEP-086", found=repr(text), known="column [asc|desc], ...", hint="correct the order"
        )
    return order


def reversed_order(text: str) -> str:
    """The same order from its end."""
    return ", ".join(f"`{name}` {'asc' if down else 'desc'}" for name, down in order_of(text))


def instant_order(written: tuple[str, ...], rows: Schema) -> Order:
    """How rows of one instant are ordered: each text is a column, or columns with their direction."""
    order: list[tuple[str, bool]] = []
    for text in written:
        order += [(text, False)] if text in rows else order_of(text)
    return tuple(order)


def check_instant_order(columns: tuple[str, ...], schema: Schema, step: str) -> None:
    """Columns that order rows of one instant exist and have an order."""
    for name, _ in instant_order(columns, schema):
        field = column_of(name, schema, step)
        if pa.types.is_nested(field.type):
            msg = f"column {name!r} has no order"
            hint = "order by a field of it"
            raise InvalidStep(msg, code="STEP-180", step=step, found=field.type_name, known="plain types", hint=hint)


def _check_by(by: str | None, rows: Schema, step: str) -> None:
    for name, _ in order_of(by) if by is not None else ():
        if name not in rows:
            msg = f"unknown column {name!r}"
            raise InvalidStep(msg, code="STEP-042", step=step, known=rows.names, hint="correct by=")
        if pa.types.is_nested(rows[name].type):
            msg = f"column {name!r} has no order"
            raise InvalidStep(
                msg, code="STEP-086", step=step, found=rows[name].type_name, hint="order by a field of it"
            )


def _with_rank(rows: Schema, rank: str, step: str) -> Schema:
    if rank in rows:
        msg = f"the column of the rank, {rank!r}, is there already"
        raise InvalidStep(msg, code="STEP-081", step=step, known=rows.names, hint="give rank= another name")
    return Schema((*rows, Field(rank, pa.int64(), nullable=False)))


def _with_bounds(rows: Schema, step: str) -> Schema:
    clash = [field.name for field in WINDOW_FIELDS if field.name in rows]
    if clash:
        msg = "the rows have columns of the window already"
        hint = "give them other names before, as in select(..., first_start='window_start')"
        raise InvalidStep(msg, code="STEP-243", step=step, found=", ".join(clash), hint=hint)
    return Schema((*rows, *WINDOW_FIELDS))
