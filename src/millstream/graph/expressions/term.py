"""Typed pieces of DuckDB SQL, and Spark's rules for the common type of two of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from millstream.graph.expressions.refusal import TYPE, Site
from millstream.model.types import type_name

VOID = pa.null()
BOOLEAN, STRING, BINARY, DATE = pa.bool_(), pa.string(), pa.binary(), pa.date32()
BYTE, SHORT, INT, LONG, FLOAT, DOUBLE = pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()
TIMESTAMP, TIMESTAMP_NTZ = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
MAX_PRECISION = 38

_DUCKDB = {
    BOOLEAN: "BOOLEAN", BYTE: "TINYINT", SHORT: "SMALLINT", INT: "INTEGER", LONG: "BIGINT",
    FLOAT: "FLOAT", DOUBLE: "DOUBLE", STRING: "VARCHAR", BINARY: "BLOB",
    DATE: "DATE", TIMESTAMP: "TIMESTAMP", TIMESTAMP_NTZ: "TIMESTAMP",
}  # fmt: skip
_INTEGRAL_DIGITS = {BYTE: 3, SHORT: 5, INT: 10, LONG: 20}
_RANK = [BYTE, SHORT, INT, LONG, FLOAT, DOUBLE]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A piece of SQL with Spark's type for it."""

    sql: str
    type: pa.DataType
    value: Any = None
    """The Python value of a literal."""
    is_literal: bool = False
    may_raise: bool = False
    """Whether evaluating it can fail, so that it must not run for rows Spark would skip."""
    direct: tuple[Any, ...] | None = None
    """The same meaning for pyarrow's own kernels, where they agree with Spark."""


def quoted(text: str) -> str:
    """A string as a DuckDB literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name as a DuckDB identifier."""
    return '"' + name.replace('"', '""') + '"'


def duckdb_type(arrow: pa.DataType) -> str:
    """DuckDB's name of a type. Timestamps are plain there: every one is UTC."""
    if arrow in _DUCKDB:
        return _DUCKDB[arrow]
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"{duckdb_type(arrow.value_type)}[]"
    if pa.types.is_map(arrow):
        return f"MAP({duckdb_type(arrow.key_type)}, {duckdb_type(arrow.item_type)})"
    assert pa.types.is_struct(arrow), f"no DuckDB type for {arrow}"
    return "STRUCT(" + ", ".join(f"{identifier(f.name)} {duckdb_type(f.type)}" for f in arrow) + ")"


def named(arrow: pa.DataType) -> str:
    """A type in the user's words."""
    return "null" if arrow == VOID else type_name(arrow)


def is_integral(arrow: pa.DataType) -> bool:
    """Whether a type is byte, short, int or long."""
    return arrow in _INTEGRAL_DIGITS


def is_fractional(arrow: pa.DataType) -> bool:
    """Whether a type is float or double."""
    return arrow in {FLOAT, DOUBLE}


def is_decimal(arrow: pa.DataType) -> bool:
    """Whether a type is a decimal."""
    return bool(pa.types.is_decimal(arrow))


def is_numeric(arrow: pa.DataType) -> bool:
    """Whether arithmetic is defined for a type."""
    return arrow in _RANK or is_decimal(arrow)


def is_temporal(arrow: pa.DataType) -> bool:
    """Whether a type is a date or a timestamp."""
    return arrow in {DATE, TIMESTAMP, TIMESTAMP_NTZ}


def is_atomic(arrow: pa.DataType) -> bool:
    """Whether values of a type can be compared."""
    return arrow in _DUCKDB or is_decimal(arrow)


def is_list(arrow: pa.DataType) -> bool:
    """Whether a type is an array."""
    return bool(pa.types.is_list(arrow))


def is_map(arrow: pa.DataType) -> bool:
    """Whether a type is a map."""
    return bool(pa.types.is_map(arrow))


def is_struct(arrow: pa.DataType) -> bool:
    """Whether a type is a struct."""
    return bool(pa.types.is_struct(arrow))


def bounded(precision: int, scale: int) -> pa.DataType:
    """Spark's result type of decimal arithmetic: scale gives way to integral digits, down to six."""
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    integral = precision - scale
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - integral, min(scale, 6)))


def as_decimal_type(term: Term, *, tight: bool) -> pa.DataType:
    """The decimal type of an integral or decimal term; a literal takes only the digits it has when `tight`."""
    if is_decimal(term.type):
        return term.type
    if tight and term.is_literal:
        return pa.decimal128(len(str(abs(term.value))), 0)
    return pa.decimal128(_INTEGRAL_DIGITS[term.type], 0)


def common_type(left: Term, right: Term, site: Site, *, tight: bool = False) -> pa.DataType:
    """The type both terms are widened to, by Spark's ANSI rules; strings are never converted silently."""
    one, other = left.type, right.type
    if other in {one, VOID}:
        return one
    if one == VOID:
        return other
    if is_numeric(one) and is_numeric(other):
        return _common_number(left, right, site, tight=tight)
    if is_temporal(one) and is_temporal(other):
        return TIMESTAMP if TIMESTAMP in {one, other} else TIMESTAMP_NTZ
    raise mismatch(left, right, site)


def _common_number(left: Term, right: Term, site: Site, *, tight: bool) -> pa.DataType:
    one, other = left.type, right.type
    if is_fractional(one) or is_fractional(other):
        return DOUBLE  # Spark widens float with anything else to double, to keep integral digits
    if not is_decimal(one) and not is_decimal(other):
        return max(one, other, key=_RANK.index)
    first, second = as_decimal_type(left, tight=tight), as_decimal_type(right, tight=tight)
    scale = max(first.scale, second.scale)
    precision = max(first.precision - first.scale, second.precision - second.scale) + scale
    if precision > MAX_PRECISION:
        raise mismatch(left, right, site)
    return pa.decimal128(precision, scale)


def mismatch(left: Term, right: Term, site: Site) -> Exception:
    """The refusal of two types that have no common type."""
    problem = f"{named(left.type)} and {named(right.type)} have no common type"
    return site.refuse(TYPE, problem, hint="convert one of them with CAST(... AS ...)")
