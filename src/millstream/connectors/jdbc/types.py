"""Column types of the databases: what a column is created as, and which existing columns hold it."""

from __future__ import annotations

import re

import pyarrow as pa

_POSTGRES = {
    "boolean": ("boolean", r"boolean"),
    "byte": ("smallint", r"smallint|integer|bigint|numeric(\(\d+,0\))?"),
    "short": ("smallint", r"smallint|integer|bigint|numeric(\(\d+,0\))?"),
    "int": ("integer", r"integer|bigint|numeric(\(\d+,0\))?"),
    "long": ("bigint", r"bigint|numeric"),
    "float": ("real", r"real|double precision"),
    "double": ("double precision", r"double precision"),
    "string": ("text", r"text|character varying(\(\d+\))?|citext"),
    "binary": ("bytea", r"bytea"),
    "date": ("date", r"date"),
    "timestamp": ("timestamp with time zone", r"timestamp(\(6\))? with time zone"),
    "timestamp_ntz": ("timestamp without time zone", r"timestamp(\(6\))? without time zone"),
}
_SQLITE = {
    "boolean": ("INTEGER", ("INTEGER", "NUMERIC")),
    "byte": ("INTEGER", ("INTEGER", "NUMERIC")),
    "short": ("INTEGER", ("INTEGER", "NUMERIC")),
    "int": ("INTEGER", ("INTEGER", "NUMERIC")),
    "long": ("INTEGER", ("INTEGER", "NUMERIC")),
    "float": ("REAL", ("REAL", "NUMERIC")),
    "double": ("REAL", ("REAL", "NUMERIC")),
    "string": ("TEXT", ("TEXT",)),
    "binary": ("BLOB", ()),
    "date": ("TEXT", ("TEXT", "NUMERIC")),
    "timestamp": ("TEXT", ("TEXT", "NUMERIC")),
    "timestamp_ntz": ("TEXT", ("TEXT", "NUMERIC")),
}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_AFFINITIES = (("INT", "INTEGER"), ("CHAR|CLOB|TEXT", "TEXT"), ("BLOB", "BLOB"), ("REAL|FLOA|DOUB", "REAL"))


def postgres_type(arrow: pa.DataType, name: str) -> str:
    """The type a PostgreSQL column is created with."""
    if pa.types.is_nested(arrow):
        return "jsonb"
    return f"numeric({arrow.precision},{arrow.scale})" if pa.types.is_decimal(arrow) else _POSTGRES[name][0]


def postgres_holds(found: str, arrow: pa.DataType, name: str) -> bool:
    """Whether an existing PostgreSQL column takes every value unchanged."""
    if pa.types.is_nested(arrow):
        return found in {"jsonb", "json", "text"}
    if not pa.types.is_decimal(arrow):
        return re.fullmatch(_POSTGRES[name][1], found) is not None
    sized = _NUMERIC.fullmatch(found)
    if sized is None:
        return found == "numeric"
    precision, scale = int(sized[1]), int(sized[2])
    return bool(scale >= arrow.scale and precision - scale >= arrow.precision - arrow.scale)


def sqlite_type(arrow: pa.DataType, name: str) -> str:
    """The type an SQLite column is created with; decimals and nested values are text, so that they stay exact."""
    return "TEXT" if pa.types.is_nested(arrow) or pa.types.is_decimal(arrow) else _SQLITE[name][0]


def sqlite_holds(found: str, arrow: pa.DataType, name: str) -> bool:
    """Whether an existing SQLite column, by its affinity, leaves every value as it is."""
    affinity = _affinity(found)
    if affinity == "BLOB":  # keeps whatever it is given
        return True
    if pa.types.is_nested(arrow) or pa.types.is_decimal(arrow):
        return affinity == "TEXT"
    return affinity in _SQLITE[name][1]


def _affinity(declared: str) -> str:
    if not declared:
        return "BLOB"
    return next((kind for pattern, kind in _AFFINITIES if re.search(pattern, declared.upper())), "NUMERIC")
