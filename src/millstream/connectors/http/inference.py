"""A schema from the records of one page: a first draft for people, or for those who ask for it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.model.schema import HIDDEN, Field, Schema

_LONGEST = 2**63


def schema_from(records: Sequence[Any], *, texts: bool = False) -> Schema:
    """The columns that records have, each of a type that holds all its values; any may be null.

    Args:
        records: JSON values; those that are no objects say nothing.
        texts: whether all values are texts, as in csv, and numbers are to be seen in them.
    """
    columns: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.items() if isinstance(record, Mapping) else ():
            if name and not name.startswith(HIDDEN):
                columns.setdefault(name, []).append(_meant(value) if texts else value)
    return Schema(tuple(Field(name, type_of(values)) for name, values in columns.items()))


def type_of(values: Sequence[Any]) -> pa.DataType:
    """A type that holds all values; text where there is none, or where values of several kinds meet."""
    there = [value for value in values if value is not None]
    kinds = {type(value) for value in there}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64() if all(-_LONGEST <= value < _LONGEST for value in there) else pa.float64()
    if kinds and kinds <= {int, float}:
        return pa.float64()
    if kinds == {str}:
        return _type_of_texts(there)
    if kinds == {list}:
        return pa.list_(type_of([item for value in there for item in value]))
    if kinds == {dict}:
        return _struct_of(there)
    return pa.string()


def _struct_of(values: Sequence[Mapping[str, Any]]) -> pa.DataType:
    fields: dict[str, list[Any]] = {}
    for value in values:
        for name, inside in value.items():
            fields.setdefault(name, []).append(inside)
    named = [pa.field(name, type_of(inside)) for name, inside in fields.items() if name]
    return pa.struct(named) if named else pa.string()


def _type_of_texts(texts: Sequence[str]) -> pa.DataType:
    if all(_is_date(text) for text in texts):
        return pa.date32()
    return pa.timestamp("us", tz="UTC") if all(_is_instant(text) for text in texts) else pa.string()


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and dt.date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_instant(text: str) -> bool:
    """An instant with its zone: a time without one may be meant for any."""
    try:
        return len(text) > 10 and "T" in text and dt.datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _meant(text: Any) -> Any:
    """What a cell of csv stands for."""
    if not isinstance(text, str) or not text:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
