"""What user functions return, as rows and as batches of a declared schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from millstream.errors import MillstreamError
from millstream.model.schema import Schema
from millstream.records.codecs import rows_to_batch

NOT_A_ROW = "(not a row)"
"""Stands for the columns of what is no row, so that a schema refuses it by name."""
Refuse = Callable[[Any, Exception, int], None]
"""Takes a bad row, what is wrong with it, and its place among those that were made."""


def to_batch(made: Iterable[Any], schema: Schema, refuse: Refuse) -> tuple[list[int] | None, pa.RecordBatch]:
    """Rows as a batch of the declared schema, and which of them are in it (`None`: all); the rest is refused one by one."""
    rows = [row if type(row) is dict else as_mapping(row) for row in made]
    try:
        return None, rows_to_batch(rows, schema)
    except MillstreamError:
        pass
    kept: list[int] = []
    for place, row in enumerate(rows):
        try:
            rows_to_batch([row], schema)
        except MillstreamError as problem:
            refuse(row, problem, place)
        else:
            kept.append(place)
    return kept, rows_to_batch([rows[place] for place in kept], schema)


def as_mapping(row: Any) -> Mapping[str, Any]:
    """What a user function returned, as a mapping: dicts, dataclasses, pydantic models and named tuples."""
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    if hasattr(row, "model_dump"):
        return dict(row.model_dump())
    if hasattr(row, "_asdict"):
        return dict(row._asdict())
    return {NOT_A_ROW: row}


def is_row(made: Any) -> bool:
    """Whether what a user function returned is a row."""
    return isinstance(made, dict) or NOT_A_ROW not in as_mapping(made)
