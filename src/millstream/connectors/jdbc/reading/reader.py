"""The half that runs in workers: one range of the key at a time, whole, in the order of the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from millstream.connectors.jdbc.reading.decision import too_slow
from millstream.connectors.jdbc.reading.fitting import fitted
from millstream.connectors.jdbc.reading.keys import KeyColumn, KeyValues, shown_key
from millstream.connectors.jdbc.reading.opening import login_of, open_rows
from millstream.connectors.jdbc.reading.probe import StatementTimedOut
from millstream.connectors.jdbc.reading.relation import label_of
from millstream.connectors.jdbc.reading.rows import ArrowRows, column_list
from millstream.connectors.jdbc.reading.statements import KeyStatements
from millstream.contract.source import BadRecord
from millstream.model.connector import Options
from millstream.model.schema import Schema

_FEWEST = 10
"""Rows below which a range is not read in smaller pieces."""


class JdbcReader:
    """Reads ranges by one connection.

    A range is in memory before its first row is passed on: what comes behind never holds the database up, and a range that
    takes too long, or is cut off, is asked for again without anyone noticing.
    """

    def __init__(self, options: Options, schema: Schema) -> None:
        self._options, self._schema = options, schema
        self._rows: ArrowRows | None = None

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """The rows of a range, of no key, or of everything."""
        rows = self._opened(split)
        key = tuple(KeyColumn.from_json(column) for column in split.get("key", ()))
        statements = KeyStatements(dialect=rows.dialect, source=rows.source, key=key)
        columns = column_list(rows, self._schema, split["forms"])
        try:
            for table in self._tables(rows, statements, columns, split):
                yield from fitted(table, self._schema, lambda values: self._origin(values, statements, split))
        except StatementTimedOut as problem:
            raise too_slow(self._options, problem, step=split["step"]) from problem

    def _tables(
        self, rows: ArrowRows, statements: KeyStatements, columns: list[str], split: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        match split["kind"]:
            case "range":
                yield from self._ranges(rows, statements, columns, split["low"], split["high"], split["rows"])
            case "nulls":
                yield from rows.stream(statements.null_rows(columns), self._schema)
            case _:
                yield from rows.stream(statements.select(columns), self._schema)

    def _ranges(
        self,
        rows: ArrowRows,
        statements: KeyStatements,
        columns: list[str],
        low: KeyValues | None,
        high: KeyValues,
        count: int,
    ) -> Iterator[pa.Table]:
        """A range whole, or where that takes too long, its halves."""
        half = count // 2
        try:
            table = rows.table(statements.rows(columns, low, high), self._schema)
        except StatementTimedOut:
            found = rows.keys(statements.boundary(low, high, half)) if half >= _FEWEST else []
            if not found or found[0] == high:
                raise
        else:
            yield table
            return
        yield from self._ranges(rows, statements, columns, low, found[0], half)
        yield from self._ranges(rows, statements, columns, found[0], high, half)

    def _origin(self, values: Mapping[str, str], statements: KeyStatements, split: Mapping[str, Any]) -> str:
        label, names = label_of(self._options), [column.name for column in statements.key]
        if names and all(name in values for name in names):
            return f"{label} " + ", ".join(f"{name}={values[name]}" for name in names)
        if split["kind"] != "range":
            return label
        return (
            f"{label} behind {shown_key(statements.key, split['low'])} up to {shown_key(statements.key, split['high'])}"
        )

    def _opened(self, split: Mapping[str, Any]) -> ArrowRows:
        if self._rows is None:
            login = login_of(self._options, job=split["job"], step=split["step"])
            self._rows = open_rows(self._options, login, server=split["server"])
        return self._rows

    def close(self) -> None:
        """Close the connection, if one is open."""
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()
