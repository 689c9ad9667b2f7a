"""Rows in the forms in which a load function may give them, as batches of the source's schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from millstream.connectors.files.columns import checked_nulls, fitted
from millstream.contract.source import BadRecord
from millstream.errors import InvalidSchema, MillstreamError
from millstream.model.schema import Schema
from millstream.records.codecs import rows_to_batch
from millstream.runtime.bad_records import as_text
from millstream.runtime.chain.made_rows import as_mapping, is_row

FORMS = "a list of rows, a mapping of columns, an Arrow table or batch, or a data frame"
_BATCH = 131_072


class UnknownRows(TypeError):
    """A load function gave its rows in a form that is none of those it may use."""


def parts_of(rows: Any, schema: Schema, *, origin: str) -> Iterator[pa.RecordBatch | BadRecord]:
    """Batches of the good rows, and a `BadRecord` for each that does not fit the schema.

    Raises:
        UnknownRows: they are in no known form.
        InvalidSchema: a whole column does not fit.
    """
    if rows is None:
        return
    if isinstance(rows, Mapping):
        yield from _columns(rows, schema, origin)
    elif hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        yield from _arrow(pa.table(rows), schema, origin)
    elif isinstance(rows, Iterable) and not isinstance(rows, (str, bytes)):
        yield from _rows(list(rows), schema, origin)
    else:
        raise UnknownRows(type(rows).__name__)


def counted(rows: Any) -> int:
    """How many rows these are, without a look at what is in them."""
    if rows is None:
        return 0
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return int(pa.table(rows).num_rows)
    if isinstance(rows, Mapping):
        return max((len(values) for values in rows.values() if hasattr(values, "__len__")), default=0)
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes)):
        raise UnknownRows(type(rows).__name__)
    return sum(1 for _ in rows)


def _columns(columns: Mapping[str, Any], schema: Schema, origin: str) -> Iterator[pa.RecordBatch | BadRecord]:
    """Columns of plain values are read as rows are; arrays have types of their own."""
    if all(isinstance(values, (list, tuple)) for values in columns.values()):
        if len(set(map(len, columns.values()))) > 1:
            msg = "columns of different lengths"
            raise UnknownRows(msg)
        pairs = zip(*columns.values(), strict=True)
        yield from _rows([dict(zip(columns, values, strict=True)) for values in pairs], schema, origin)
        return
    try:
        table = pa.table(dict(columns))
    except (pa.ArrowException, TypeError, ValueError) as problem:
        msg = f"a mapping whose values are no columns: {problem}"
        raise UnknownRows(msg) from None
    yield from _arrow(table, schema, origin)


def _arrow(table: pa.Table, schema: Schema, origin: str) -> Iterator[pa.RecordBatch | BadRecord]:
    for batch in table.to_batches(max_chunksize=_BATCH):
        for part in checked_nulls(fitted(batch, schema, {}), schema):
            yield BadRecord(part.raw, part.error, origin) if isinstance(part, BadRecord) else part


def _rows(rows: list[Any], schema: Schema, origin: str) -> Iterator[pa.RecordBatch | BadRecord]:
    if rows and not is_row(rows[0]):
        msg = f"a list of {type(rows[0]).__name__}"
        raise UnknownRows(msg)
    made = [row if type(row) is dict else as_mapping(row) for row in rows]
    for start in range(0, len(made), _BATCH):
        yield from _batches(made[start : start + _BATCH], schema, origin)


def _batches(rows: list[Mapping[str, Any]], schema: Schema, origin: str) -> Iterator[pa.RecordBatch | BadRecord]:
    """Rows as one batch; where one of them does not fit, halves of them, so that a bad row costs little."""
    try:
        batch = rows_to_batch(rows, schema)
    except InvalidSchema as problem:
        if len(rows) == 1:
            yield BadRecord(as_text(rows[0]), _reason(problem), origin)
            return
    else:
        yield batch
        return
    middle = len(rows) // 2
    yield from _batches(rows[:middle], schema, origin)
    yield from _batches(rows[middle:], schema, origin)


def _reason(problem: MillstreamError) -> str:
    # A bad row is found by converting it alone, so its row number says nothing.
    text = problem.message.replace(" of row 0", "").replace("row 0 has", "row has")
    parts = [text, problem.found and f"found {problem.found}", problem.known and f"known: {problem.known}"]
    return "; ".join(part for part in parts if part)
