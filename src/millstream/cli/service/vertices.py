"""The vertices of a run as a table: how busy each is, what passes through it, and which holds the job back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from millstream.cli.show import show_rows
from millstream.errors import ExternalFailure, UnknownName

if TYPE_CHECKING:
    from millstream.client import Client
    from millstream.client.sights import VertexInfo

_COLUMNS = (
    "vertex",
    "status",
    "busy",
    "blocked",
    "idle",
    "rows in",
    "per second",
    "rows out",
    "dead",
    "late",
    "watermark",
)
_SHOWN = 30
"""Vertices at most; whoever has more asks the service for all."""


def show_vertices(client: Client, run: str) -> None:
    """Print the vertices of a run; a run of which nothing is known says why in one line."""
    try:
        told = client.runs.vertices(run)
    except (UnknownName, ExternalFailure) as problem:
        typer.echo(f"vertices    not known: {problem.message}")
        return
    show_rows(_COLUMNS, [_row(each) for each in told.items[:_SHOWN]])
    if len(told.items) > _SHOWN:
        typer.echo(f"and {len(told.items) - _SHOWN} more")
    if told.holder is not None:
        typer.echo(
            f"held back by {_holder(told.holder)}" if _is_held(told.holder) else f"not held back: {told.holder['why']}"
        )
    for each in told.items:
        if each.first_error:
            typer.echo(f"{each.uid} failed: {each.first_error.splitlines()[0]}")


def _row(vertex: VertexInfo) -> list[str | None]:
    load, rows = vertex.load, vertex.rows
    shares = [_percent(each) for each in (load.busy, load.blocked, load.idle)]
    counts = [_number(rows.get(name)) for name in ("in", "in_per_second", "out", "dead", "late")]
    return [vertex.uid, vertex.status.lower(), *shares, *counts, vertex.watermark]


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


def _number(amount: Any) -> str | None:
    return None if amount is None else f"{amount:,.0f}"


def _is_held(holder: dict[str, Any]) -> bool:
    return bool(holder.get("step") or holder.get("phase"))


def _holder(holder: dict[str, Any]) -> str:
    what = f"{holder['kind']} {holder['step']!r}" if holder.get("step") else f"phase {holder['phase']}"
    return f"{what}: {holder['why']}"
