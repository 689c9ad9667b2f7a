"""Rows of a piece of csv: all at once by Arrow, or record by record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from millstream.connectors.formats.cells import cell_value
from millstream.connectors.formats.text_columns import Part, typed_batches
from millstream.connectors.json_values import batches_from_json
from millstream.contract.source import BadRecord
from millstream.model.schema import Schema

Cells = Sequence[bytes | None]

_MILLISECONDS = re.compile(r"^-?[0-9]{1,18}$")
_EXAMPLES = 100
"""Records that are looked at for a time that is not null."""


def by_arrow(chunk: bytes, schema: Schema, names: list[str], delimiter: str) -> Iterator[pa.RecordBatch]:
    """All rows at once, with those columns of the schema that the names have.

    Raises:
        ValueError: a record is bad, or is good and Arrow cannot read it.
    """
    if not _has_rows(chunk, names):
        return
    table = parsed(chunk, schema, delimiter, pa.csv.ReadOptions(column_names=names))
    yield from typed_batches(table, schema.select(name for name in schema.names if name in names))


def parsed(chunk: bytes, schema: Schema, delimiter: str, options: pa.csv.ReadOptions) -> pa.Table:
    """What Arrow makes of records whose columns the options name; times and bytes are not yet converted."""
    names = options.column_names
    kinds = {field.name: _parsed_type(field.type) for field in schema if field.name in names}
    table = pa.csv.read_csv(
        pa.BufferReader(chunk),
        read_options=options,
        parse_options=_parse_options(names, delimiter),
        convert_options=_convert_options(kinds),
    )
    for field in schema:
        if pa.types.is_timestamp(field.type) and field.name in names:
            table = _with_milliseconds(table, field.name)
    return table


def _with_milliseconds(table: pa.Table, name: str) -> pa.Table:
    """The table with numbers in the place of times that are all written as such."""
    column = table.column(name)
    first = next((text for text in column.slice(0, _EXAMPLES).to_pylist() if text is not None), "")
    if (
        not _MILLISECONDS.fullmatch(first)
        or not pc.all(pc.match_substring_regex(column, _MILLISECONDS.pattern)).as_py()
    ):
        return table
    return table.set_column(table.schema.get_field_index(name), name, column.cast(pa.int64()))


def _has_rows(chunk: bytes, names: list[str]) -> bool:
    return bool(chunk if len(names) == 1 else chunk.strip(b"\r\n"))


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    """How Arrow shall read a column: it reads only some forms of times itself, and no base64."""
    return pa.string() if pa.types.is_timestamp(kind) or pa.types.is_binary(kind) else kind


def _parse_options(names: list[str], delimiter: str, **more: Any) -> pa.csv.ParseOptions:
    # In a file of one column a line without anything is a row whose cell is empty.
    is_blank_nothing = len(names) != 1
    return pa.csv.ParseOptions(
        delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=is_blank_nothing, **more
    )


def _convert_options(kinds: dict[str, pa.DataType]) -> pa.csv.ConvertOptions:
    return pa.csv.ConvertOptions(
        column_types=kinds,
        include_columns=list(kinds),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def by_record(chunk: bytes, schema: Schema, names: list[str], delimiter: str) -> Iterator[Part]:
    """The rows of good records, and a bad record for each of the others."""
    places = {name: names.index(name) for name in schema.names if name in names}
    rows: list[Any] = []
    raw = []
    for record in _records(chunk, names, delimiter):
        if isinstance(record, BadRecord):
            raw.append(str(record.raw))
            rows.append(record)
            continue
        raw.append(delimiter.join((cell or b"").decode("utf-8", "replace") for cell in record))
        try:
            rows.append({name: _value(record[place], schema[name].type) for name, place in places.items()})
        except UnicodeDecodeError as problem:
            rows.append(BadRecord(raw[-1], f"not UTF-8: {problem}"))
    yield from batches_from_json(rows, schema, raw=raw)


def _value(cell: bytes | None, kind: pa.DataType) -> Any:
    """What the cell stands for; nothing between quotes is empty, or null where nothing is empty but text."""
    if cell is None or (not cell and not (pa.types.is_string(kind) or pa.types.is_binary(kind))):
        return None
    return cell_value(cell.decode("utf-8"), kind)


def _records(chunk: bytes, names: list[str], delimiter: str) -> list[Cells | BadRecord]:
    """The cells of each record, separated by Arrow as in `by_arrow`; its handler of bad rows takes UTF-8 alone.

    As latin-1 every byte is a character, which gives UTF-8 whatever the bytes are.
    """
    bad_records: list[tuple[int, BadRecord]] = []

    def take(row: Any) -> str:
        text = row.text.encode("latin-1").decode("utf-8", "replace")
        error = f"{row.actual_columns} csv columns where {row.expected_columns} were expected"
        bad_records.append((row.number - 1, BadRecord(text, error)))
        return "skip"

    data = chunk.decode("latin-1").encode("utf-8")
    columns = [str(place) for place in range(len(names))]
    table = pa.csv.read_csv(
        pa.BufferReader(data),
        # In one piece and by one thread, so that the handler is told the number of each row.
        read_options=pa.csv.ReadOptions(column_names=columns, use_threads=False, block_size=len(data) + 1),
        parse_options=_parse_options(names, delimiter, invalid_row_handler=take),
        convert_options=_convert_options(dict.fromkeys(columns, pa.string())),
    )
    cells = [
        [None if text is None else text.encode("latin-1") for text in column.to_pylist()] for column in table.columns
    ]
    records: list[Cells | BadRecord] = list(zip(*cells, strict=True))
    for place, bad in bad_records:
        records.insert(place, bad)
    return records
