"""Which column of the rows plays which part in a message."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from millstream.connectors.formats.options import check_format
from millstream.errors import InvalidStep
from millstream.model.connector import Options
from millstream.model.schema import Schema
from millstream.model.types import type_name

OP_FIELD = "op"
"""Where rows say what happened to them, if they have it; a column that is named must be there."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRoles:
    """The parts of a message, by the columns they are made of."""

    value: tuple[str, ...]
    key: tuple[str, ...]
    key_format: str
    topic: str | None
    default_topic: str | None
    partition: str | None
    spread: tuple[str, ...]
    """Rows with the same values of these go to the same partition."""
    spread_format: str
    timestamp: str | None
    headers: str | Mapping[str, str]
    """A column that holds them, or a column for each by name."""
    op: str | None
    """The column that says whether a row deletes its key."""


def roles_of(options: Options, schema: Schema) -> ColumnRoles:
    """The roles of the columns; nothing is checked."""
    topics: list[str] = options["topics"]
    op = options["op_field"] if options["mode"] == "upsert" and options["op_field"] in schema else None
    key, spread = tuple(options["key_fields"]), tuple(options["partition_by"])
    headers: str | Mapping[str, str] = options["headers"]
    steering = {options["topic_field"], options["partition_field"], op, *_header_columns(headers)}
    value = options["value_fields"] or [name for name in schema.names if name not in steering]
    return ColumnRoles(
        value=tuple(value),
        key=key,
        key_format=options["key_format"] or _default_format(key, schema),
        topic=options["topic_field"],
        default_topic=topics[0] if topics else None,
        partition=options["partition_field"],
        spread=spread,
        spread_format=_default_format(spread, schema),
        timestamp=options["timestamp"],
        headers=headers,
        op=op,
    )


def _header_columns(headers: str | Mapping[str, str]) -> tuple[str, ...]:
    if isinstance(headers, str):
        return (headers,) if headers else ()
    return tuple(headers.values())


def _default_format(names: tuple[str, ...], schema: Schema) -> str:
    """One column of text or bytes as it is, everything else as json."""
    is_plain = len(names) == 1 and names[0] in schema and _is_text(schema[names[0]].type)
    return "raw" if is_plain else "json"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def check_roles(options: Options, schema: Schema, step: str) -> None:
    """Refuse columns that are not there or cannot play their part, and formats that cannot hold theirs."""
    for option, name in _named_columns(options):
        if name not in schema:
            msg = f"{option}= names {name!r}, which is not a column of the rows"
            raise _unfit(msg, step, known=list(schema.names), hint=f"correct {option}=")
    roles = roles_of(options, schema)
    for option, column, fits, known in _expected(roles):
        if column is not None and not fits(schema[column].type):
            msg = f"{option}= names {column!r}, which has another type"
            raise _unfit(
                msg, step, found=type_name(schema[column].type), known=known, hint=f"cast it, or correct {option}="
            )
    if not roles.value:
        msg = "no column is left for the value of a message"
        raise _unfit(msg, step, hint="pass value_fields=[...], or leave a column out of headers= and topic_field=")
    check_format(options, schema.select(roles.value), step, writes=True)
    for names, format in ((roles.key, roles.key_format), (roles.spread, roles.spread_format)):
        if names:
            check_format({"format": format}, schema.select(names), step, writes=True)


def _unfit(msg: str, step: str, *, hint: str, found: object = None, known: object = None) -> InvalidStep:
    return InvalidStep(msg, code="KAFKA-020", step=step, found=found, known=known, hint=hint)


def _named_columns(options: Options) -> Iterator[tuple[str, str]]:
    listed: dict[str, Iterable[str]] = {
        "key_fields": options["key_fields"],
        "value_fields": options["value_fields"] or (),
        "partition_by": options["partition_by"],
        "headers": _header_columns(options["headers"]),
        **{name: [options[name]] for name in ("topic_field", "partition_field", "timestamp") if options[name]},
        "op_field": [options["op_field"]] if options["op_field"] != OP_FIELD else (),
    }
    for option, names in listed.items():
        yield from ((option, name) for name in names)


def _expected(roles: ColumnRoles) -> Iterator[tuple[str, str | None, Callable[[pa.DataType], bool], str]]:
    yield "topic_field", roles.topic, pa.types.is_string, "string"
    yield "partition_field", roles.partition, pa.types.is_integer, "byte, short, int or long"
    yield "timestamp", roles.timestamp, pa.types.is_timestamp, "timestamp or timestamp_ntz"
    yield "op_field", roles.op, pa.types.is_string, "string"
    if isinstance(roles.headers, str):
        known = "map<string,string>, map<string,binary>, or an array of structs with key and value"
        yield "headers", roles.headers or None, _holds_headers, known
        return
    for column in roles.headers.values():
        yield "headers", column, lambda kind: not pa.types.is_nested(kind), "a column that is not nested"


def _holds_headers(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return bool(pa.types.is_string(kind.key_type) and _is_text(kind.item_type))
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return fields.keys() == {"key", "value"} and pa.types.is_string(fields["key"]) and _is_text(fields["value"])
