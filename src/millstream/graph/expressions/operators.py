"""Operators: arithmetic, comparison and logic over typed terms, with Spark's result types and its errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from millstream.graph.expressions import term as t
from millstream.graph.expressions.casts import moment, widen
from millstream.graph.expressions.refusal import TYPE, Site
from millstream.graph.expressions.term import Term, bounded, common_type, duckdb_type, mismatch, named

_DIRECT = {"=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_LONG_DIGITS = 18
"""Decimals of so many digits fit into 64 bits."""


def arithmetic(symbol: str, left: Term, right: Term, site: Site) -> Term:
    """`+ - * / %` on numbers, `div` for whole division."""
    for side in (left, right):
        if not t.is_numeric(side.type) and side.type != t.VOID:
            hint = "use date_add or datediff" if t.is_temporal(side.type) else "convert it with CAST(... AS ...)"
            raise site.refuse(TYPE, f"{symbol!r} needs numbers", found=named(side.type), hint=hint)
    if t.VOID in {left.type, right.type}:
        other = right if left.type == t.VOID else left
        typed = t.DOUBLE if symbol == "/" or other.type == t.VOID else other.type
        return arithmetic(symbol, widen(left, typed), widen(right, typed), site)
    if symbol == "div":
        return _whole_division(left, right, site)
    has_decimal = t.is_decimal(left.type) or t.is_decimal(right.type)
    if has_decimal and not t.is_fractional(left.type) and not t.is_fractional(right.type):
        return _decimal_arithmetic(symbol, left, right, site)
    kind = t.DOUBLE if symbol == "/" else common_type(left, right, site)
    first, second = widen(left, kind), widen(right, kind)
    sql = f"({first.sql} {symbol} {_divisor(symbol, first, second)})"
    # Widening to DuckDB's larger integers must not hide an overflow
    return Term(sql=f"CAST({sql} AS {duckdb_type(kind)})", type=kind, may_raise=True)


def _divisor(symbol: str, left: Term, right: Term) -> str:
    """The right side, which raises instead of being zero where it divides a value that is not null."""
    if symbol not in {"/", "%", "//"} or (right.is_literal and right.value):
        return right.sql
    return f"CASE WHEN {_is_zero(left, right)} THEN error('division by zero') ELSE {right.sql} END"


def _is_zero(left: Term, right: Term) -> str:
    return f"{right.sql} = 0" if left.is_literal else f"{right.sql} = 0 AND {left.sql} IS NOT NULL"


def _whole_division(left: Term, right: Term, site: Site) -> Term:
    if not (t.is_integral(left.type) and t.is_integral(right.type)):
        types = f"{named(left.type)} and {named(right.type)}"
        raise site.refuse(TYPE, "'div' needs whole numbers", found=types, hint="use floor(a / b)")
    first, second = widen(left, t.LONG), widen(right, t.LONG)
    return Term(sql=f"CAST(({first.sql} // {_divisor('//', first, second)}) AS BIGINT)", type=t.LONG, may_raise=True)


def _decimal_arithmetic(symbol: str, left: Term, right: Term, site: Site) -> Term:
    first, second = (widen(side, t.as_decimal_type(side, tight=True)) for side in (left, right))
    kind = _decimal_result(symbol, first.type, second.type)
    if symbol == "/":
        sql = _decimal_quotient(first, second, kind, site)
    else:
        if symbol == "*" and first.type.scale + second.type.scale > t.MAX_PRECISION:
            raise mismatch(left, right, site)
        sql = f"CAST(({_roomy(first, kind)} {symbol} {_divisor(symbol, first, second)}) AS {duckdb_type(kind)})"
    return Term(sql=sql, type=kind, may_raise=True)


def _roomy(side: Term, result: pa.DataType) -> str:
    """SQL with as many digits as the result: DuckDB otherwise computes short decimals in 64 bits and overflows."""
    if side.type.precision >= result.precision:
        return side.sql
    return f"CAST({side.sql} AS DECIMAL({result.precision},{side.type.scale}))"


def _decimal_result(symbol: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
    (p1, s1), (p2, s2) = (one.precision, one.scale), (other.precision, other.scale)
    scale, integral = max(s1, s2), max(p1 - s1, p2 - s2)
    if symbol in {"+", "-"}:
        return bounded(integral + scale + 1, scale)
    if symbol == "*":
        return bounded(p1 + p2 + 1, s1 + s2)
    if symbol == "%":
        return bounded(min(p1 - s1, p2 - s2) + scale, scale)
    scale = max(6, s1 + p2 + 1)
    return bounded(p1 - s1 + s2 + scale, scale)


def _decimal_quotient(first: Term, second: Term, kind: pa.DataType, site: Site) -> str:
    """Exact division on 128-bit integers: one digit more than the result has, then rounded half up."""
    shift = kind.scale + 1 - first.type.scale + second.type.scale
    if not 0 <= shift <= t.MAX_PRECISION or kind.scale + 1 > t.MAX_PRECISION:
        raise mismatch(first, second, site)
    is_short = first.type.precision + shift <= _LONG_DIGITS and second.type.precision <= _LONG_DIGITS
    whole, width = ("BIGINT", _LONG_DIGITS) if is_short else ("HUGEINT", t.MAX_PRECISION)
    digits = f"({_unscaled(first, whole)} * {10**shift}::{whole}) // {_unscaled(second, whole)}"
    unit = "0." + "0" * kind.scale + "1"
    quotient = f"CAST({digits} AS DECIMAL({width},0)) * CAST('{unit}' AS DECIMAL({kind.scale + 1},{kind.scale + 1}))"
    zero = "error('division by zero')"
    return f"CASE WHEN {_is_zero(first, second)} THEN {zero} ELSE CAST(({quotient}) AS {duckdb_type(kind)}) END"


def _unscaled(side: Term, whole: str) -> str:
    """A decimal as the integer of its digits: by multiplication where that fits, otherwise through text."""
    scale = side.type.scale
    if side.type.precision + scale <= t.MAX_PRECISION:
        width = _LONG_DIGITS if side.type.precision + scale <= _LONG_DIGITS else t.MAX_PRECISION
        return f"CAST(CAST({side.sql} AS DECIMAL({width},{scale})) * {10**scale}::DECIMAL({scale + 1},0) AS {whole})"
    return f"CAST(replace(CAST({side.sql} AS VARCHAR), '.', '') AS {whole})"


def negate(side: Term, site: Site) -> Term:
    """Unary minus; the smallest integer has no negative and raises."""
    if not t.is_numeric(side.type):
        raise site.refuse(TYPE, "'-' needs a number", found=named(side.type), hint="convert it with CAST(... AS ...)")
    return Term(sql=f"CAST((-{side.sql}) AS {duckdb_type(side.type)})", type=side.type, may_raise=True)


def compare(symbol: str, left: Term, right: Term, site: Site) -> Term:
    """Comparison after widening; NaN equals itself and is the largest number, as in Spark."""
    left, right = _dated(left, right, site), _dated(right, left, site)
    kind = common_type(left, right, site, tight=True)
    if not t.is_atomic(kind) and kind != t.VOID:
        raise site.refuse(TYPE, "cannot be compared", found=named(kind), hint="compare a field or an element of it")
    kind = t.STRING if kind == t.VOID else kind
    first, second = widen(left, kind), widen(right, kind)
    return Term(
        sql=f"({first.sql} {symbol} {second.sql})",
        type=t.BOOLEAN,
        may_raise=left.may_raise or right.may_raise,
        direct=_direct_comparison(symbol, left, right, kind),
    )


def _dated(side: Term, other: Term, site: Site) -> Term:
    """A string literal beside a date or timestamp is read as one, as in Spark, and checked at once."""
    if side.is_literal and side.type == t.STRING and t.is_temporal(other.type):
        return moment(side.value, other.type, site)
    return side


def _direct_comparison(symbol: str, left: Term, right: Term, kind: pa.DataType) -> tuple[object, ...] | None:
    if left.direct is None or right.direct is None or symbol not in _DIRECT or kind == t.BINARY:
        return None
    if any(side.type != kind and not side.is_literal for side in (left, right)):
        return None
    forms = (_retyped(left, kind), _retyped(right, kind))
    if not t.is_fractional(kind):
        return (_DIRECT[symbol], *forms)
    if not (right.is_literal and math.isfinite(right.value)):
        return None
    # NaN is the largest number in Spark and unordered in pyarrow: only these forms treat it alike
    inverse = {">": "less_equal", ">=": "less"}.get(symbol)
    return ("invert", (inverse, *forms)) if inverse else (_DIRECT[symbol], *forms)


def _retyped(side: Term, kind: pa.DataType) -> tuple[object, ...]:
    assert side.direct is not None, "only terms with a direct form are compared directly"
    if not side.is_literal:
        return side.direct
    value = side.value
    if t.is_decimal(kind):
        value = Decimal(value)
    if t.is_fractional(kind):
        value = float(value)
    return ("literal", value, kind)


def same(left: Term, right: Term, site: Site) -> Term:
    """`<=>`: equality that treats two nulls as equal."""
    return compare("IS NOT DISTINCT FROM", left, right, site)


def boolean(side: Term, where: str, site: Site) -> Term:
    """The term itself when it is boolean (or null); refused otherwise."""
    if side.type == t.VOID:
        return widen(side, t.BOOLEAN)
    if side.type != t.BOOLEAN:
        raise site.refuse(TYPE, f"{where} needs a boolean", found=named(side.type), hint="compare it, as in x = 1")
    return side


def both(left: Term, right: Term, site: Site) -> Term:
    """`AND`: the right side is not evaluated where the left is false."""
    left, right = boolean(left, "AND", site), boolean(right, "AND", site)
    sql = f"({left.sql} AND {right.sql})"
    if right.may_raise:
        sql = f"CASE WHEN {left.sql} IS NOT DISTINCT FROM false THEN false ELSE {sql} END"
    return _logic(sql, "and_kleene", left, right)


def either(left: Term, right: Term, site: Site) -> Term:
    """`OR`: the right side is not evaluated where the left is true."""
    left, right = boolean(left, "OR", site), boolean(right, "OR", site)
    sql = f"({left.sql} OR {right.sql})"
    if right.may_raise:
        sql = f"CASE WHEN {left.sql} IS NOT DISTINCT FROM true THEN true ELSE {sql} END"
    return _logic(sql, "or_kleene", left, right)


def _logic(sql: str, kernel: str, left: Term, right: Term) -> Term:
    has_direct = left.direct is not None and right.direct is not None
    return Term(
        sql=sql,
        type=t.BOOLEAN,
        may_raise=left.may_raise or right.may_raise,
        direct=(kernel, left.direct, right.direct) if has_direct else None,
    )


def invert(side: Term, site: Site) -> Term:
    """`NOT`."""
    side = boolean(side, "NOT", site)
    direct = None if side.direct is None else ("invert", side.direct)
    return Term(sql=f"(NOT {side.sql})", type=t.BOOLEAN, may_raise=side.may_raise, direct=direct)


def is_null(side: Term) -> Term:
    """`IS NULL`."""
    direct = None if side.direct is None or side.is_literal else ("is_null", side.direct)
    return Term(sql=f"({side.sql} IS NULL)", type=t.BOOLEAN, may_raise=side.may_raise, direct=direct)


Binary = Callable[[Term, Term, Site], Term]
