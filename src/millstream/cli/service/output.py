"""Answers of the service for people and programs: tables, JSON, YAML."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import typer
import yaml

from millstream.cli.service.options import Form
from millstream.cli.show import json_text, show_rows


def show_list(items: Iterable[Any], columns: Mapping[str, str], form: Form) -> None:
    """Rows of values: `columns` are headings and the fields under them; other forms have all fields."""
    rows = [msgspec.to_builtins(item) for item in items]
    match form:
        case "json":
            for row in rows:
                typer.echo(json_text(row))
        case "yaml":
            typer.echo(yaml.safe_dump(rows, sort_keys=False, allow_unicode=True), nl=False)
        case "table":
            show_rows(list(columns), [[_field(row, path) for path in columns.values()] for row in rows])


def show_one(item: Any, form: Form, lines: Sequence[tuple[str, Any]]) -> None:
    """One value: as lines for people, whole for programs."""
    whole = msgspec.to_builtins(item)
    match form:
        case "json":
            typer.echo(json_text(whole))
        case "yaml":
            typer.echo(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True), nl=False)
        case "table":
            width = max(len(name) for name, _ in lines)
            for name, value in lines:
                typer.echo(f"{name:<{width}}  {_text(value)}")


def _field(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)
