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
from millstream.errors import UnknownName


def show_list(items: Iterable[Any], columns: Mapping[str, str], form: Form, *, quiet: bool = False) -> None:
    """Rows of values: `columns` are headings and the fields under them; other forms have all fields."""
    rows = [msgspec.to_builtins(item) for item in items]
    if quiet:
        named = next(iter(columns.values()))
        for row in rows:
            typer.echo(_text(_field(row, named)))
        return
    match form:
        case "json":
            for row in rows:
                typer.echo(json_text(row))
        case "yaml":
            typer.echo(yaml.safe_dump(rows, sort_keys=False, allow_unicode=True), nl=False)
        case "table":
            show_rows(list(columns), [[_field(row, path) for path in columns.values()] for row in rows])


def show_one(item: Any, form: Form, lines: Sequence[tuple[str, Any]], *, quiet: bool = False) -> None:
    """One value: as lines for people, whole for programs; quietly its first line alone."""
    if quiet:
        typer.echo(_text(lines[0][1]))
        return
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


def named(items: Iterable[Any], field: str, given: str, *, what: str) -> str:
    """The whole of an id that is given by how it begins.

    Raises:
        UnknownName: (CLI-022) none begins like that, or several do.
    """
    whole = [str(getattr(each, field)) for each in items]
    begins = [given] if given in whole else [each for each in whole if given and each.startswith(given)]
    if len(begins) == 1:
        return begins[0]
    msg = f"there is no such {what}" if not begins else f"more than one {what} begins like that"
    raise UnknownName(msg, code="CLI-022", found=repr(given), known=whole[:20], hint="list them, and say more of it")


def _field(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)
