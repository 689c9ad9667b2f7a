"""Column types: Spark's DDL names on the outside, Arrow types on the inside."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from millstream.errors import InvalidSchema

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_ALIASES = {
    "bool": "boolean",
    "tinyint": "byte",
    "smallint": "short",
    "integer": "int",
    "bigint": "long",
    "real": "float",
    "varchar": "string",
    "text": "string",
    "bytes": "binary",
    "timestamp_ltz": "timestamp",
}
_NAMES = {arrow: name for name, arrow in _PLAIN.items()}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|\w+|[<>(),:])")
_MAX_PRECISION = 38


def parse_type(text: str) -> pa.DataType:
    """Read a DDL type such as `long`, `decimal(10,2)` or `array<struct<a:int>>`."""
    tokens = list(_tokens(text))
    arrow, rest = _parse(tokens, text)
    if rest:
        raise _unknown(text)
    return arrow


def type_name(arrow: pa.DataType) -> str:
    """The canonical DDL name of an Arrow type."""
    if arrow in _NAMES:
        return _NAMES[arrow]
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"array<{type_name(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{type_name(arrow.key_type)},{type_name(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        return "struct<" + ",".join(f"{quoted(f.name)}:{type_name(f.type)}" for f in arrow) + ">"
    return type_name(canonical(arrow))


def quoted(name: str) -> str:
    """A name as it stands in DDL: in backticks unless it is a plain word."""
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def unquoted(text: str) -> str:
    """The name that `quoted` wrote."""
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def canonical(arrow: pa.DataType) -> pa.DataType:
    """The type of ours that holds every value of `arrow`: one Arrow type per DDL name."""
    if arrow in _NAMES:
        return arrow
    for holds, kept in _WIDENED:
        if holds(arrow):
            return kept
    if pa.types.is_timestamp(arrow):
        return _PLAIN["timestamp"] if arrow.tz else _PLAIN["timestamp_ntz"]
    if pa.types.is_decimal(arrow) and arrow.precision <= _MAX_PRECISION and 0 <= arrow.scale <= arrow.precision:
        return pa.decimal128(arrow.precision, arrow.scale)
    if pa.types.is_dictionary(arrow):
        return canonical(arrow.value_type)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return pa.list_(canonical(arrow.value_type))
    if pa.types.is_map(arrow):
        return pa.map_(canonical(arrow.key_type), canonical(arrow.item_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, canonical(f.type)) for f in arrow])
    raise _unknown(str(arrow))


_WIDENED = (
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_null, pa.string()),
)


def _tokens(text: str) -> Iterator[str]:
    position = 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unknown(text)
        yield match.group(1)
        position = match.end()


def _parse(tokens: list[str], text: str) -> tuple[pa.DataType, list[str]]:
    if not tokens:
        raise _unknown(text)
    word, rest = tokens[0].lower(), tokens[1:]
    head = _ALIASES.get(word, word)
    if head in _PLAIN:
        return _PLAIN[head], rest
    if head in {"decimal", "numeric"}:
        return _decimal(rest, text)
    if head == "array":
        item, rest = _parse(_after(rest, "<", text), text)
        return pa.list_(item), _after(rest, ">", text)
    if head == "map":
        key, rest = _parse(_after(rest, "<", text), text)
        item, rest = _parse(_after(rest, ",", text), text)
        return pa.map_(key, item), _after(rest, ">", text)
    if head == "struct":
        return _struct(_after(rest, "<", text), text)
    raise _unknown(text)


def _decimal(rest: list[str], text: str) -> tuple[pa.DataType, list[str]]:
    if not rest or rest[0] != "(":
        return pa.decimal128(10, 0), rest
    match rest[1:]:
        case [precision, ",", scale, ")", *tail] if precision.isdigit() and scale.isdigit():
            pass
        case [precision, ")", *tail] if precision.isdigit():
            scale = "0"
        case _:
            raise _unknown(text)
    if not 1 <= int(precision) <= _MAX_PRECISION or int(scale) > int(precision):
        raise _unknown(text)
    return pa.decimal128(int(precision), int(scale)), list(tail)


def _struct(tokens: list[str], text: str) -> tuple[pa.DataType, list[str]]:
    fields = []
    while True:
        if not tokens:
            raise _unknown(text)
        name = unquoted(tokens[0])
        arrow, tokens = _parse(_after(tokens[1:], ":", text), text)
        fields.append(pa.field(name, arrow))
        if tokens and tokens[0] == ",":
            tokens = tokens[1:]
            continue
        return pa.struct(fields), _after(tokens, ">", text)


def _after(tokens: list[str], expected: str, text: str) -> list[str]:
    if not tokens or tokens[0] != expected:
        raise _unknown(text)
    return tokens[1:]


def _unknown(text: str) -> InvalidSchema:
    return InvalidSchema(
        "unknown column type",
        code="SCHEMA-002",
        found=repr(text),
        known=[*_PLAIN, "decimal(p,s)", "array<t>", "map<k,v>", "struct<name:t,...>"],
        hint="use one of the known type names",
    )
