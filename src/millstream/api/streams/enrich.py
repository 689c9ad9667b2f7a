"""Lookups and asynchronous steps as the user writes them, checked and turned into steps."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from millstream.api.streams.choices import checked_choice, checked_how
from millstream.api.streams.signatures import output_schema
from millstream.api.values.error_policy import OnErrorLike, policy
from millstream.errors import InvalidStep
from millstream.graph.function import function_ref
from millstream.graph.operations.enrich import AsyncMap, Lookup, LookupTable, TableFormat
from millstream.model.schema import Schema, SchemaLike, schema_of
from millstream.model.time import DurationLike, duration_ms, positive_ms

TableLike: TypeAlias = Sequence[Mapping[str, Any]] | pa.Table | str | Path
_FORMATS: dict[str, TableFormat] = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}


def lookup_operation(
    table: TableLike,
    on: Mapping[str, str],
    *,
    how: Literal["inner", "left"],
    schema: SchemaLike | None,
    format: str | None,
    prefix: str | None,
    refresh: DurationLike | None,
    step: str,
) -> Lookup:
    """A lookup as it stands in the plan; rows are written into it, files are named."""
    if not isinstance(on, Mapping):
        msg = "on is a mapping of a column of the stream to a column of the table"
        raise InvalidStep(msg, code="STEP-083", step=step, found=repr(on), hint="write on={'auction': 'key'}")
    if isinstance(table, (str, Path)):
        source, known = _file(Path(table), format, schema, step)
    else:
        source, known = _inline(table, schema, step)
    return Lookup(
        table=source,
        schema=known,
        on=tuple(on.items()),
        how=checked_how(how, ("inner", "left")),
        prefix=prefix,
        refresh=None if refresh is None else positive_ms(refresh, what="refresh"),
    )


def _inline(table: Any, schema: SchemaLike | None, step: str) -> tuple[LookupTable, Schema]:
    wanted = None if schema is None else schema_of(schema)
    try:
        rows = table if isinstance(table, pa.Table) else pa.Table.from_pylist([dict(row) for row in table])
        if wanted is not None:
            # No rows have no columns either, and need none.
            has_rows = rows.num_rows or rows.num_columns
            rows = rows.select(wanted.names).cast(wanted.arrow) if has_rows else wanted.arrow.empty_table()
    except (TypeError, ValueError, KeyError, pa.ArrowException) as problem:
        msg = "not a table"
        raise InvalidStep(
            msg, code="STEP-083", step=step, found=f"{type(problem).__name__}: {problem}", hint="pass a list of rows"
        ) from None
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows.combine_chunks())
    content = base64.b64encode(sink.getvalue().to_pybytes()).decode()
    return LookupTable(format="inline", content=content), wanted or schema_of(rows.schema)


def _file(path: Path, given: str | None, schema: SchemaLike | None, step: str) -> tuple[LookupTable, Schema]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    suffix = next((file.suffix for file in files if file.suffix in _FORMATS), "")
    kind = checked_choice(given or _FORMATS.get(suffix, ""), tuple(_FORMATS.values()), "format")
    if schema is None:
        if kind != "parquet":
            msg = f"a table in {kind} files needs a schema"
            raise InvalidStep(msg, code="STEP-061", step=step, hint="pass schema='key long, value string'")
        schema = _parquet_schema(files, step)
    return LookupTable(format=kind, path=str(path)), schema_of(schema)


def _parquet_schema(files: list[Path], step: str) -> pa.Schema:
    # Few jobs look tables up in parquet files, whose library is slow to load.
    from pyarrow import parquet

    first = next((file for file in files if file.suffix == ".parquet" and file.is_file()), None)
    if first is None:
        msg = "there is no file to take the schema of the table from"
        raise InvalidStep(msg, code="STEP-061", step=step, hint="write the file first, or pass schema=")
    return parquet.read_schema(first)


def async_operation(
    function: Callable[[dict[str, Any]], Any] | str,
    *,
    schema: SchemaLike | None,
    concurrency: int,
    timeout: DurationLike | None,
    retries: int,
    backoff: DurationLike,
    ordered: bool,
    on_error: OnErrorLike,
    step: str,
) -> AsyncMap:
    """An asynchronous step as it stands in the plan."""
    reference = function_ref(function, step=step)
    target = reference.target
    if not inspect.iscoroutinefunction(target) and not inspect.iscoroutinefunction(getattr(target, "__call__", None)):  # noqa: B004
        msg = "async_map takes a coroutine function"
        raise InvalidStep(msg, code="STEP-084", step=step, found=reference.name, hint="define it with async def")
    return AsyncMap(
        function=reference,
        schema=output_schema(target, schema, step=step, many=False),
        concurrency=concurrency,
        timeout=None if timeout is None else positive_ms(timeout, what="timeout"),
        retries=retries,
        backoff=duration_ms(backoff, what="backoff"),
        ordered=ordered,
        on_error=policy(on_error, step),
    )
