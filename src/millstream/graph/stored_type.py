"""The schema of a Python type as state stores it: JSON Schema in which fields count and the names of classes do not.

`msgspec.json.schema` describes JSON; state is msgpack, where the keys of maps keep their type and a datetime is no text. So
the schema is written here, from the same description of the type that msgspec decodes by.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from millstream.errors import InvalidStep

TypeSchema = dict[str, Any]
_PLAIN: dict[type[inspect.Type], TypeSchema] = {
    inspect.AnyType: {},
    inspect.RawType: {},
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer"},
    inspect.FloatType: {"type": "number"},
    inspect.StrType: {"type": "string"},
    inspect.BytesType: {"type": "string", "format": "binary"},
    inspect.ByteArrayType: {"type": "string", "format": "binary"},
    inspect.MemoryViewType: {"type": "string", "format": "binary"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.DateType: {"type": "string", "format": "date"},
    inspect.TimeType: {"type": "string", "format": "time"},
    inspect.TimeDeltaType: {"type": "string", "format": "duration"},
    inspect.UUIDType: {"type": "string", "format": "uuid"},
    inspect.DecimalType: {"type": "string", "format": "decimal"},
    inspect.ExtType: {"type": "string", "format": "msgpack-ext"},
}
_LISTS = (inspect.ListType, inspect.VarTupleType, inspect.CollectionType)
_SETS = (inspect.SetType, inspect.FrozenSetType)
_BOUNDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "tz": "zoned",
}
_Fielded = inspect.DataclassType | inspect.TypedDictType | inspect.StructType | inspect.NamedTupleType


def stored_schema(kind: Any, *, what: str = "state") -> TypeSchema:
    """The schema of a type; equal schemas read each other's content.

    Args:
        kind: what msgspec decodes to: plain types, collections, dataclasses, `Struct`, `TypedDict`, `NamedTuple`, unions.
        what: names the state in messages.

    Raises:
        InvalidStep: the type cannot be stored, or holds something that cannot.
    """
    try:
        return _SchemaWriter(what).schema(inspect.type_info(kind), "#")
    except (TypeError, NameError) as problem:
        raise _unstorable(what, kind, str(problem).splitlines()[0]) from None


def _unstorable(what: str, kind: Any, why: str = "") -> InvalidStep:
    msg = f"{what} is declared with a type that cannot be stored"
    return InvalidStep(
        msg,
        code="STATE-003",
        found=f"{kind!r} ({why})" if why else repr(kind),
        known="plain types, list, dict, tuple, dataclass, TypedDict, NamedTuple, msgspec.Struct",
        hint="store a dataclass",
    )


class _SchemaWriter:
    """Writes one schema; a class inside itself becomes a reference to where it is open."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._open: dict[int, str] = {}

    def schema(self, kind: inspect.Type, path: str) -> TypeSchema:
        if isinstance(kind, inspect.Metadata):
            return self.schema(kind.type, path)
        if isinstance(kind, inspect.CustomType):
            raise _unstorable(self._what, kind.cls)
        if isinstance(kind, _Fielded):
            return self._class(kind, path)
        return {**self._shape(kind, path), **_bounds(kind)}

    def _shape(self, kind: inspect.Type, path: str) -> TypeSchema:
        match kind:
            case inspect.UnionType():
                return {"anyOf": [self.schema(arm, f"{path}/anyOf/{at}") for at, arm in enumerate(kind.types)]}
            case inspect.LiteralType():
                return {"enum": sorted(kind.values, key=repr)}
            case inspect.EnumType():
                return {"enum": sorted((member.value for member in kind.cls), key=repr)}
            case inspect.TupleType():
                items = [self.schema(item, f"{path}/prefixItems/{at}") for at, item in enumerate(kind.item_types)]
                return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
            case inspect.DictType() | inspect.FrozenDictType():
                keys = self.schema(kind.key_type, f"{path}/propertyNames")
                values = self.schema(kind.value_type, f"{path}/additionalProperties")
                return {"type": "object", "propertyNames": keys, "additionalProperties": values}
            case _ if isinstance(kind, _SETS):
                return {"type": "array", "items": self.schema(kind.item_type, f"{path}/items"), "uniqueItems": True}
            case _ if isinstance(kind, _LISTS):
                return {"type": "array", "items": self.schema(kind.item_type, f"{path}/items")}
        if type(kind) not in _PLAIN:
            raise _unstorable(self._what, type(kind))
        return dict(_PLAIN[type(kind)])

    def _class(self, kind: _Fielded, path: str) -> TypeSchema:
        if id(kind) in self._open:
            return {"$ref": self._open[id(kind)]}
        self._open[id(kind)] = path
        is_row = isinstance(kind, inspect.NamedTupleType) or (isinstance(kind, inspect.StructType) and kind.array_like)
        schema = self._row(kind, path) if is_row else self._object(kind, path)
        del self._open[id(kind)]
        return schema

    def _object(self, kind: _Fielded, path: str) -> TypeSchema:
        fields = {f.encode_name: self.schema(f.type, f"{path}/properties/{f.encode_name}") for f in kind.fields}
        schema: TypeSchema = {
            "type": "object",
            "properties": fields,
            "required": sorted(field.encode_name for field in kind.fields if field.required),
        }
        if isinstance(kind, inspect.StructType):
            schema |= {"additionalProperties": False} if kind.forbid_unknown_fields else {}
            schema |= {"tag": [kind.tag_field, kind.tag]} if kind.tag_field is not None else {}
        return schema

    def _row(self, kind: _Fielded, path: str) -> TypeSchema:
        """Fields by position: their names are kept, because two that swap places would read each other's content."""
        items = [
            {**self.schema(field.type, f"{path}/prefixItems/{at}"), "title": field.name}
            for at, field in enumerate(kind.fields)
        ]
        schema: TypeSchema = {
            "type": "array",
            "prefixItems": items,
            "minItems": sum(1 for field in kind.fields if field.required),
        }
        is_open = isinstance(kind, inspect.StructType) and not kind.forbid_unknown_fields
        schema |= {} if is_open else {"items": False}
        if isinstance(kind, inspect.StructType) and kind.tag_field is not None:
            schema |= {"tag": [kind.tag_field, kind.tag]}
        return schema


def _bounds(kind: inspect.Type) -> TypeSchema:
    given = {name: getattr(kind, name, None) for name in _BOUNDS}
    return {_BOUNDS[name]: value for name, value in given.items() if value is not None}


def schema_text(schema: TypeSchema) -> str:
    """A schema for people: `integer`, `array of string`, `object {amount, currency}`."""
    match schema:
        case {"anyOf": arms}:
            return " or ".join(map(schema_text, arms))
        case {"enum": values}:
            return f"one of {', '.join(map(repr, values))}"
        case {"$ref": _}:
            return "itself"
        case {"properties": fields}:
            return f"object {{{', '.join(fields)}}}"
        case {"propertyNames": keys, "additionalProperties": values}:
            return f"map of {schema_text(keys)} to {schema_text(values)}"
        case {"prefixItems": items}:
            return f"tuple ({', '.join(map(schema_text, items))})"
        case {"type": "array", "items": item}:
            return f"{'set' if schema.get('uniqueItems') else 'array'} of {schema_text(item)}"
    bounds = ", ".join(f"{name} {schema[name]}" for name in _BOUNDS.values() if name in schema)
    return str(schema.get("format") or schema.get("type") or "anything") + (f" ({bounds})" if bounds else "")


def canonical(schema: TypeSchema) -> str:
    """A schema as text that is equal for equal schemas."""
    return msgspec.json.encode(schema, order="sorted").decode()
