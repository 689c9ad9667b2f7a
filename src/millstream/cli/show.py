"""Tables and JSON for people and programs: rows of plain values, and Arrow tables."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

_WIDTH = 200


def show_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows as an aligned table."""
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(cell_text(cell) for cell in row))
    Console(width=_WIDTH, highlight=False, markup=False, soft_wrap=True).print(table)


def show_table(table: pa.Table, *, as_json: bool) -> None:
    """An Arrow table; as JSON one object per line."""
    rows = table.to_pylist()
    if as_json:
        for row in rows:
            typer.echo(json_text(row))
    else:
        show_rows(table.column_names, [list(row.values()) for row in rows])


def json_text(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=plain)


def cell_text(value: Any) -> str:
    """A value in a cell: text and times as they are, nothing as `-`, other values as JSON."""
    if value is None:
        return "-"
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    return value if isinstance(value, str) else json_text(value)


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of values that any form can hold."""
    found: dict[str, Any] = json.loads(json_text(row))
    return found


def plain(value: Any) -> Any:
    """A value that JSON has no form for."""
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
