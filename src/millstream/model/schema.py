"""A schema: named, typed columns. Built from a dataclass, TypedDict, pydantic model, DDL text, mapping or Arrow schema."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from millstream.errors import InvalidSchema
from millstream.model.types import canonical, parse_type, quoted, type_name, unquoted

HIDDEN = "__ms_"
"""Prefix of columns the runtime adds; refused in user schemas."""

_COLUMN = re.compile(r"(`(?:[^`]|``)+`|[^\s:`]+)\s*[\s:]\s*(\S.*)", re.DOTALL)
_NOT_NULL = re.compile(r"\s+not\s+null$", re.IGNORECASE)
_PYTHON: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    decimal.Decimal: pa.decimal128(38, 18),
    dt.datetime: pa.timestamp("us", tz="UTC"),
    dt.date: pa.date32(),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One column."""

    name: str
    type: pa.DataType
    nullable: bool = True

    @property
    def type_name(self) -> str:
        """The DDL name of the column's type."""
        return type_name(self.type)


@dataclasses.dataclass(frozen=True, slots=True)
class Schema:
    """Ordered columns with unique names. Equal schemas have equal names, types and nullability."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        for name in names:
            if not name or name.startswith(HIDDEN):
                msg = "column name is empty or reserved"
                raise InvalidSchema(
                    msg, code="SCHEMA-003", found=repr(name), hint=f"names may not start with {HIDDEN!r}"
                )
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            msg = "column names occur twice"
            raise InvalidSchema(msg, code="SCHEMA-004", found=", ".join(doubled), hint="rename one of them")

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return any(field.name == name for field in self.fields)

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        msg = f"unknown column {name!r}"
        raise InvalidSchema(msg, code="SCHEMA-005", known=list(self.names), hint="use one of the known columns")

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(field.name for field in self.fields)

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of batches with these columns; nullability is checked where rows enter, not by Arrow."""
        return pa.schema([pa.field(field.name, field.type) for field in self.fields])

    @property
    def ddl(self) -> str:
        """Canonical DDL text; `schema_of` reads it back to an equal schema."""
        return ", ".join(f"{quoted(f.name)} {f.type_name}" + ("" if f.nullable else " not null") for f in self.fields)

    def select(self, names: Iterable[str]) -> Schema:
        """The named columns, in the order given."""
        return Schema(tuple(self[name] for name in names))


SchemaLike = Any
"""A dataclass, TypedDict, pydantic model, DDL text, mapping name → type, Arrow schema or `Schema`."""


def schema_of(value: SchemaLike) -> Schema:
    """Read any accepted form of schema."""
    if isinstance(value, Schema):
        return value
    if isinstance(value, pa.Schema):
        return Schema(tuple(Field(f.name, canonical(f.type), f.nullable) for f in value))
    if isinstance(value, str):
        return _from_ddl(value)
    if isinstance(value, Mapping):
        return Schema(tuple(_field(name, kind) for name, kind in value.items()))
    if isinstance(value, type):
        return _from_class(value)
    raise _not_a_schema(value)


def is_schema_class(value: object) -> bool:
    """Whether a class describes columns: a dataclass, TypedDict or pydantic model."""
    if not isinstance(value, type):
        return False
    return dataclasses.is_dataclass(value) or typing.is_typeddict(value) or hasattr(value, "model_fields")


def _from_class(value: type) -> Schema:
    if not is_schema_class(value):
        raise _not_a_schema(value)
    hints = typing.get_type_hints(value, include_extras=True)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        # A pydantic model has hints for its own machinery too.
        names = list(getattr(value, "model_fields", hints))
    fields = [_field(name, hints[name]) for name in names]
    optional = getattr(value, "__optional_keys__", ())  # of a TypedDict with total=False
    return Schema(tuple(dataclasses.replace(f, nullable=f.nullable or f.name in optional) for f in fields))


def _field(name: str, kind: Any) -> Field:
    kind, nullable = _without_none(kind)
    return Field(name, _arrow_of(kind, name), nullable)


def _without_none(kind: Any) -> tuple[Any, bool]:
    if isinstance(kind, (str, pa.DataType)):
        return kind, True
    origin = typing.get_origin(kind)
    if origin in {typing.Required, typing.NotRequired}:
        inner, nullable = _without_none(typing.get_args(kind)[0])
        return inner, nullable or origin is typing.NotRequired
    if origin is typing.Annotated:
        base, nullable = _without_none(typing.get_args(kind)[0])
        return typing.Annotated[(base, *kind.__metadata__)], nullable
    if origin in {typing.Union, types.UnionType}:
        arms = [arm for arm in typing.get_args(kind) if arm is not type(None)]
        if len(arms) == 1:
            return arms[0], True
    return kind, False


def _arrow_of(kind: Any, name: str) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return canonical(kind)
    if isinstance(kind, str):
        return parse_type(kind)
    if typing.get_origin(kind) is typing.Annotated:
        return _arrow_of(_annotated(kind), name)
    if kind in _PYTHON:
        return _PYTHON[kind]
    if is_schema_class(kind):
        return pa.struct([pa.field(f.name, f.type) for f in _from_class(kind)])
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in {list, tuple, set, frozenset} and args:
        return pa.list_(_arrow_of(_without_none(args[0])[0], name))
    if origin is dict and len(args) == 2:
        return pa.map_(_arrow_of(args[0], name), _arrow_of(_without_none(args[1])[0], name))
    msg = f"column {name!r} has a type that is not a column type"
    raise InvalidSchema(
        msg,
        code="SCHEMA-002",
        found=repr(kind),
        known=[k.__name__ for k in _PYTHON] + ["list[t]", "dict[k, v]", "a dataclass", "a DDL type name"],
        hint="annotate it with one of the known types, or Annotated[type, 'ddl type']",
    )


def _annotated(kind: Any) -> Any:
    """`Annotated[Decimal, "decimal(10,2)"]` takes the DDL text; other annotations are left to their type."""
    base, *notes = typing.get_args(kind)
    return next((note for note in notes if isinstance(note, (str, pa.DataType))), base)


def _from_ddl(text: str) -> Schema:
    fields = []
    for part in _split_top(text):
        column = _COLUMN.fullmatch(part.strip())
        if column is None:
            raise _not_a_schema(text)
        kind, count = _NOT_NULL.subn("", column.group(2))
        fields.append(Field(unquoted(column.group(1)), parse_type(kind), nullable=not count))
    return Schema(tuple(fields))


def _split_top(text: str) -> Iterator[str]:
    depth, start, is_quoted = 0, 0, False
    for position, char in enumerate(text):
        is_quoted ^= char == "`"
        if is_quoted:
            continue
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _not_a_schema(value: object) -> InvalidSchema:
    return InvalidSchema(
        "not a schema",
        code="SCHEMA-001",
        found=repr(value),
        known="a dataclass, TypedDict, pydantic model, DDL text, mapping of name to type, or Arrow schema",
        hint="for example schema='user string, amount double'",
    )
