"""Rows whose columns of the table are texts, as rows of the schema; those that are none become bad records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from millstream.connectors.postgres_cdc.columns import typed_column
from millstream.connectors.postgres_cdc.positions import lsn_text
from millstream.connectors.postgres_cdc.spec import column_of, table_schema
from millstream.contract.source import BadRecord
from millstream.model.connector import Options
from millstream.model.schema import Field, Schema

Part: TypeAlias = pa.RecordBatch | BadRecord


def typed_rows(
    texts: pa.RecordBatch, options: Options, schema: Schema, origin: Callable[[int], str], *, first: int = 0
) -> Iterator[Part]:
    """Rows of the schema; where a value is none of its column, halves of the rows, so that a bad row costs little."""
    if not texts.num_rows:
        return
    table = table_schema(options, schema)
    try:
        yield _typed(texts, table, column_of(options, "before"), schema)
    except ValueError as problem:
        if texts.num_rows == 1:
            row = [texts.column(name)[0].as_py() for name in table.names]
            yield bad_row(table, row, str(problem), origin(first))
            return
        middle = texts.num_rows // 2
        yield from typed_rows(texts.slice(0, middle), options, schema, origin, first=first)
        yield from typed_rows(texts.slice(middle), options, schema, origin, first=first + middle)


def _typed(texts: pa.RecordBatch, table: Schema, before: str | None, schema: Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        column = texts.column(field.name)
        if field.name in table:
            arrays.append(typed_column(column, field))
        elif field.name == before and column.type != field.type:
            arrays.append(_typed_struct(column, field))
        else:
            arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def _typed_struct(column: pa.StructArray, field: Field) -> pa.Array:
    fields = [Field(f"{field.name}.{each.name}", each.type) for each in field.type]
    arrays = [typed_column(texts, each) for texts, each in zip(column.flatten(), fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(field.type), mask=column.is_null())


def bad_row(table: Schema, row: Sequence[Any], error: str, origin: str) -> BadRecord:
    """A row that cannot be one, with its values as the server wrote them."""
    texts = [None if value is None else value.decode("utf-8", "replace") for value in row]
    return BadRecord(json.dumps(dict(zip(table.names, texts, strict=True)), ensure_ascii=False), error, origin)


def origin_of(options: Options, lsn: int) -> str:
    """Where a change stands outside."""
    return f"{options['table']}@{lsn_text(lsn)}"
