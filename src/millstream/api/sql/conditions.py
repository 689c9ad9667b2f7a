"""Conditions of a join, told apart: equal keys, bounds of event time, and the rest."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
from sqlglot import exp

from millstream.api.sql.refusal import BOUNDS, Place
from millstream.api.sql.times import interval_ms
from millstream.api.sql.writing import column, text_of
from millstream.graph.expressions import reading
from millstream.graph.expressions.compile import Compiler
from millstream.graph.expressions.refusal import Site
from millstream.graph.expressions.term import Term, common_type
from millstream.model.schema import Schema
from millstream.model.types import type_name

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GTE: exp.LTE, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.LT: exp.GT, exp.EQ: exp.EQ,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The columns of a joined row by the side they come from, and those that hold event time."""

    left: frozenset[str]
    right: frozenset[str]
    times: frozenset[str]
    ends: frozenset[str]
    """Those that hold the end of the window whose result a row is, one millisecond after its event time."""
    schema: Schema

    def of(self, node: exp.Expr) -> str:
        """`left`, `right`, `both` or `none`: where the columns of an expression come from."""
        used = {part.parts[0].name for part in node.find_all(exp.Column)}
        sides = [name for name, known in (("left", self.left), ("right", self.right)) if used & known]
        return "both" if len(sides) == 2 else sides[0] if sides else "none"

    def event_shift(self, name: str) -> int:
        """By how many milliseconds a column lies behind the event time of its row."""
        return 1 if name in self.ends else 0


@dataclasses.dataclass(slots=True, kw_only=True)
class JoinConditions:
    """What is found so far."""

    sides: Sides
    place: Place
    keys: list[tuple[exp.Expr, exp.Expr]] = dataclasses.field(default_factory=list)
    """Left and right expressions that must be equal."""
    lower: int | None = None
    upper: int | None = None
    rest: list[exp.Expr] = dataclasses.field(default_factory=list)

    def take(self, node: exp.Expr) -> None:
        """Sort a condition in."""
        if isinstance(node, exp.Between) and not node.args.get("symmetric") and self._is_timed(node):
            self.take(exp.GTE(this=node.this.copy(), expression=node.args["low"].copy()))
            self.take(exp.LTE(this=node.this.copy(), expression=node.args["high"].copy()))
            return
        if self._bounded(node):
            return
        if isinstance(node, exp.EQ) and {self.sides.of(node.this), self.sides.of(node.expression)} == {"left", "right"}:
            is_left = self.sides.of(node.this) == "left"
            self.keys.append((node.this, node.expression) if is_left else (node.expression, node.this))
            return
        if node.find(exp.Interval) is not None:
            known = ", ".join(sorted(self.sides.times)) or "no column"
            hint = "compare the event times of both sides; call .event_time(...) on them before"
            raise self.place.refuse(BOUNDS, "a bound of time is not over event time", at=node, known=known, hint=hint)
        self.rest.append(node)

    def check_bounds(self) -> None:
        """Both bounds, or none: with one of them rows would be kept for ever."""
        if (self.lower is None) != (self.upper is None):
            missing = "no upper bound" if self.upper is None else "no lower bound"
            hint = "write p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"
            raise self.place.refuse(BOUNDS, "only one bound of time", found=missing, hint=hint)
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            bounds = f"{self.lower} ms to {self.upper} ms"
            raise self.place.refuse(BOUNDS, "no time lies within the bounds", found=bounds, hint="correct them")

    def widen_keys(self) -> None:
        """Convert keys of different types to the type in which Spark compares them: rows meet by equal bits and hashes."""
        self.keys = [self._widened(*pair) for pair in self.keys]

    def _widened(self, left: exp.Expr, right: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        one, other = self._term(left), self._term(right)
        if one.type == other.type:
            return left, right
        kind = common_type(one, other, self._site(exp.EQ(this=left.copy(), expression=right.copy())), tight=True)
        return _as_type(left, one.type, kind), _as_type(right, other.type, kind)

    def may_fail(self, node: exp.Expr) -> bool:
        """Whether a condition may fail for some rows, so that it must not see rows that another condition drops."""
        return self._term(node).may_raise

    def _term(self, node: exp.Expr) -> Term:
        return Compiler(self.sides.schema, self._site(node)).term(node)

    def _site(self, node: exp.Expr) -> Site:
        return Site(text=text_of(node, self.place), step=self.place.step)

    def _is_timed(self, node: exp.Expr) -> bool:
        return all(self._moved(node.args[name]) is not None for name in ("this", "low", "high"))

    def _bounded(self, node: exp.Expr) -> bool:
        """Take `right time <= left time + interval` and the like as a bound; exact to the microsecond by a condition."""
        kind = type(node)
        if kind not in _FLIPPED:
            return False
        one, other = self._moved(node.this), self._moved(node.expression)
        if one is None or other is None or (one[0] in self.sides.left) == (other[0] in self.sides.left):
            return False
        if one[0] in self.sides.left:
            kind, one, other = _FLIPPED[kind], other, one
        ahead = self.sides.event_shift(other[0]) + other[1] - self.sides.event_shift(one[0]) - one[1]
        is_exact = all(self.sides.schema[name].type == pa.int64() for name, _ in (one, other))
        step = 1 if is_exact else 0
        lower = ahead + step * (kind is exp.GT) if kind in {exp.GTE, exp.GT, exp.EQ} else None
        upper = ahead - step * (kind is exp.LT) if kind in {exp.LTE, exp.LT, exp.EQ} else None
        self._within(lower, upper)
        if kind is exp.EQ and one[1] == other[1]:
            self.keys.append((column(other[0]), column(one[0])))
        elif not is_exact:
            self.rest.append(kind(this=self._micros(*one), expression=self._micros(*other)))
        return True

    def _within(self, lower: int | None, upper: int | None) -> None:
        self.lower = max((each for each in (self.lower, lower) if each is not None), default=None)
        self.upper = min((each for each in (self.upper, upper) if each is not None), default=None)

    def _moved(self, node: exp.Expr) -> tuple[str, int] | None:
        """A column of event time, with the milliseconds that are added to it."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column):
            is_time = len(node.parts) == 1 and node.name in self.sides.times | self.sides.ends
            return (node.name, 0) if is_time else None
        if not isinstance(node, (exp.Add, exp.Sub)):
            return None
        base, shift = self._moved(node.this), node.expression
        if base is None or not (isinstance(shift, exp.Interval) or self._is_millis(base[0], shift)):
            return None
        ms = interval_ms(shift, self.place) if isinstance(shift, exp.Interval) else int(shift.this)
        return base[0], base[1] + (ms if isinstance(node, exp.Add) else -ms)

    def _is_millis(self, name: str, shift: exp.Expr) -> bool:
        is_number = isinstance(shift, exp.Literal) and str(shift.this).isdigit() and not shift.args.get("is_string")
        return is_number and self.sides.schema[name].type == pa.int64()

    def _micros(self, name: str, shift: int) -> exp.Expr:
        """The instant in microseconds: event time is kept in milliseconds, the columns are finer."""
        function = "unix_millis" if self.sides.schema[name].type == pa.int64() else "unix_micros"
        if function == "unix_millis":
            instant: exp.Expr = exp.Mul(this=column(name), expression=exp.Literal.number("1000L"))
        else:
            instant = exp.Anonymous(this=function, expressions=[column(name)])
        if not shift:
            return instant
        kind = exp.Add if shift > 0 else exp.Sub
        return kind(this=instant, expression=exp.Literal.number(f"{abs(shift) * 1000}L"))


def _as_type(node: exp.Expr, given: pa.DataType, wanted: pa.DataType) -> exp.Expr:
    if given == wanted:
        return node
    cast = reading.read(Site(text=f"CAST(key AS {type_name(wanted)})", step=None))
    cast.set("this", node.copy())
    return cast
