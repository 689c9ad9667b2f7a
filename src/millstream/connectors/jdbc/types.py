"""Column types of the databases: what a column is created as, which existing columns hold it, and as what they are read."""

from __future__ import annotations

import re

import pyarrow as pa

from millstream.model.types import parse_type

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
_POSTGRES_READ = {created: parse_type(name) for name, (created, _) in _POSTGRES.items()}
_POSTGRES_TEXT = frozenset(
    {"character varying", "character", "bpchar", "citext", "name", '"char"', "uuid", "json", "jsonb", "xml", "enum"}
)
_SQLITE_READ = {"INTEGER": pa.int64(), "TEXT": pa.string(), "REAL": pa.float64()}
_SQLITE_NAMED = (
    (r"BOOL(EAN)?", "boolean"),
    (r"DATE", "date"),
    (r"DATETIME|TIMESTAMP", "timestamp_ntz"),
    (r"BLOB", "binary"),
)
"""Names that say more than the affinity which SQLite derives from them."""
_MYSQL_READ = {
    "tinyint": "byte",
    "tinyint unsigned": "short",
    "smallint": "short",
    "smallint unsigned": "int",
    "mediumint": "int",
    "mediumint unsigned": "int",
    "int": "int",
    "int unsigned": "long",
    "bigint": "long",
    "bigint unsigned": "decimal(20,0)",
    "year": "short",
    "float": "float",
    "double": "double",
    "text": "string",
    "enum": "string",
    "set": "string",
    "binary": "binary",
    "date": "date",
    "datetime": "timestamp_ntz",
    "timestamp": "timestamp",
}
_NUMERIC = re.compile(r"(?:numeric|decimal)\((\d+),\s*(\d+)\)", re.IGNORECASE)
_SIZE = re.compile(r"\(\d+\)")
_MOST_DIGITS = 38
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


def postgres_read(found: str) -> pa.DataType | None:
    """The type that holds every value of a PostgreSQL column; `None` where there is none. Enumerations are called `enum`."""
    if found.endswith("[]"):
        item = postgres_read(found.removesuffix("[]"))
        return None if item is None else pa.list_(item)
    sized = _NUMERIC.fullmatch(found)
    if sized is not None:
        return _decimal(sized)
    plain = _SIZE.sub("", found)
    is_text = plain in _POSTGRES_TEXT or plain.endswith(".citext")
    return pa.string() if is_text else _POSTGRES_READ.get(plain)


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


def sqlite_read(declared: str) -> pa.DataType | None:
    """The type that a declaration in SQLite stands for; `None` where it says nothing."""
    sized = _NUMERIC.fullmatch(declared)
    if sized is not None:
        return _decimal(sized)
    plain = _SIZE.sub("", declared).strip().upper()
    named = next((name for pattern, name in _SQLITE_NAMED if re.fullmatch(pattern, plain)), None)
    return parse_type(named) if named else _SQLITE_READ.get(_affinity(plain))


def mysql_read(found: str) -> pa.DataType | None:
    """The type that holds every value of a MySQL column; `None` where there is none."""
    sized = _NUMERIC.fullmatch(found)
    if sized is not None:
        return _decimal(sized)
    name = _MYSQL_READ.get(found)
    return None if name is None else parse_type(name)


def _decimal(sized: re.Match[str]) -> pa.DataType | None:
    precision, scale = int(sized[1]), int(sized[2])
    return pa.decimal128(precision, scale) if scale <= precision <= _MOST_DIGITS else None


def _affinity(declared: str) -> str:
    if not declared:
        return "BLOB"
    return next((kind for pattern, kind in _AFFINITIES if re.search(pattern, declared.upper())), "NUMERIC")
