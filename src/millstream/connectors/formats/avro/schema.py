"""Avro schemas as values: read from their JSON form, names resolved, without a library."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

AvroSource: TypeAlias = Mapping[str, Any] | Sequence[Any] | str
"""A schema as it is written: JSON text, or the value of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class AvroType:
    """One type: of a primitive its name is the kind, of others `record`, `enum`, `array`, `map`, `fixed` or `union`."""

    kind: str
    logical: str = ""
    fields: tuple[tuple[str, AvroType], ...] = ()
    """Of a record."""
    parts: tuple[AvroType, ...] = ()
    """What a union may be, or the one type of the items of an array or map."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    scale: int = 0

    @property
    def name(self) -> str:
        """The type in words, for errors."""
        if self.kind == "union":
            return " or ".join(part.name for part in self.parts)
        return f"{self.kind} ({self.logical})" if self.logical else self.kind

    @property
    def is_time(self) -> bool:
        """Whether its numbers are days or instants, which columns have types for."""
        return self.logical == "date" or "timestamp" in self.logical

    @property
    def is_empty(self) -> bool:
        """Whether its values take no bytes at all."""
        if self.kind == "record":
            return all(kind.is_empty for _, kind in self.fields)
        return self.kind == "null" or (self.kind == "fixed" and not self.size)

    @property
    def without_null(self) -> AvroType | None:
        """The type beside null, if it is a union of null and one other."""
        others = [part for part in self.parts if part.kind != "null"]
        return others[0] if self.kind == "union" and len(self.parts) == 2 and len(others) == 1 else None


def avro_type(written: AvroSource) -> AvroType:
    """Read a schema.

    Raises:
        ValueError: it is none, or one that cannot become columns.
    """
    if isinstance(written, str) and written.strip()[:1] in {"{", "[", '"'}:
        written = json.loads(written)
    return _Reader().read(written, "")


class _Reader:
    """Reads one schema; types that have a name may be used again by it."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType | None] = {}

    def read(self, written: Any, namespace: str) -> AvroType:
        if isinstance(written, str):
            return self._by_name(written, namespace)
        if isinstance(written, Sequence):
            return AvroType("union", parts=tuple(self.read(each, namespace) for each in written))
        if not isinstance(written, Mapping) or "type" not in written:
            quoted = ": the type of nothing is the text 'null', in quotes" if written is None else ""
            msg = f"not an Avro schema: {written!r}{quoted}"
            raise ValueError(msg)
        match written["type"]:
            case "record" | "error" | "enum" | "fixed":
                return self._definition(written, namespace)
            case "array":
                return AvroType("array", parts=(self._item(written, "items", namespace),))
            case "map":
                return AvroType("map", parts=(self._item(written, "values", namespace),))
            case inner:
                return _with_logical(self.read(inner, namespace), written)

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full in (f"{namespace}.{name}" if namespace and "." not in name else name, name):
            if full in self._named:
                known = self._named[full]
                if known is None:
                    msg = f"type {name!r} holds itself, which no column can"
                    raise ValueError(msg)
                return known
        msg = f"unknown Avro type {name!r}"
        raise ValueError(msg)

    def _definition(self, written: Mapping[str, Any], namespace: str) -> AvroType:
        name = str(_required(written, "name"))
        inside = name.rpartition(".")[0] if "." in name else str(written.get("namespace", namespace))
        full = name if "." in name or not inside else f"{inside}.{name}"
        self._named[full] = None
        made = self._defined(written, inside)
        self._named[full] = made
        return made

    def _defined(self, written: Mapping[str, Any], namespace: str) -> AvroType:
        if written["type"] == "enum":
            return AvroType("enum", symbols=tuple(_required(written, "symbols")))
        if written["type"] == "fixed":
            return _with_logical(AvroType("fixed", size=int(_required(written, "size"))), written)
        fields = [
            (str(_required(field, "name")), self.read(_required(field, "type"), namespace))
            for field in _required(written, "fields")
        ]
        names = [name for name, _ in fields]
        if len(set(names)) != len(names):
            msg = f"a record with two fields of one name: {', '.join(names)}"
            raise ValueError(msg)
        return AvroType("record", fields=tuple(fields))

    def _item(self, written: Mapping[str, Any], key: str, namespace: str) -> AvroType:
        item = self.read(_required(written, key), namespace)
        if key == "items" and item.is_empty:
            # A few bytes could else stand for any number of items.
            msg = f"an array of {item.name}, whose items take no bytes"
            raise ValueError(msg)
        return item


def _required(written: Mapping[str, Any], key: str) -> Any:
    if key not in written:
        msg = f"an Avro type without {key!r}: {written!r}"
        raise ValueError(msg)
    return written[key]


def _with_logical(kind: AvroType, written: Mapping[str, Any]) -> AvroType:
    logical = written.get("logicalType", kind.logical)
    return dataclasses.replace(kind, logical=str(logical or ""), scale=int(written.get("scale", kind.scale)))
