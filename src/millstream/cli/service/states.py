"""Stored state of jobs of a service, for `millstream state`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import typer

from millstream.cli.service.contexts import connect
from millstream.cli.service.jobs import run_named
from millstream.cli.service.options import Form
from millstream.cli.service.output import show_list
from millstream.cli.show import json_text, show_rows

if TYPE_CHECKING:
    from millstream.client import Client
    from millstream.client.state import StateEntryInfo

STEPS = {"step": "step", "operation": "operation", "key": "key", "state": "state", "keys": "keys"}
DIFFERING = {"step": "step", "only or other in a": "a", "only or other in b": "b"}
_SAVEPOINT = re.compile(r"savepoint:(\d+)")
_MOST = 1000


class WantedEntries(NamedTuple):
    """Which entries of a step are shown."""

    step: str
    key: list[str] | None
    state: str | None
    prefix: str
    limit: int


def list_state(where: str, context: str | None, *, counted: bool, form: Form) -> None:
    """The steps that keep state."""
    with connect(context) as client:
        told = client.state.steps(_named(client, where), count=counted)
        if form == "table":
            typer.echo(f"{told.job}, epoch {told.epoch}, written on {told.engine}")
        about = {} if form == "table" else {"job": told.job, "epoch": told.epoch}
        show_list([{**about, **msgspec.to_builtins(each)} for each in told.steps], STEPS, form)


def get_state(where: str, context: str | None, wanted: WantedEntries, *, form: Form) -> None:
    """What a step has stored; exit code 1 when there is nothing."""
    with connect(context) as client:
        items: list[StateEntryInfo] = []
        named, cursor = _named(client, where), None
        while True:
            part = min(_MOST, wanted.limit - len(items))
            page = client.state.page(
                named,
                wanted.step,
                state=wanted.state,
                key=wanted.key,
                prefix=wanted.prefix,
                limit=max(1, part),
                cursor=cursor,
            )
            items += page.items
            cursor = page.next
            if cursor is None or len(items) >= wanted.limit:
                break
    _show(items[: wanted.limit], form)
    if cursor is not None and form == "table":
        typer.echo("there are more; --limit shows them", err=True)
    if not items:
        raise typer.Exit(1)


def diff_state(a: str, b: str, context: str | None, step: str | None, *, form: Form) -> bool:
    """What differs; whether anything does."""
    with connect(context) as client:
        told = client.state.diff(_named(client, a), _named(client, b), step=step, limit=_MOST)
    if step is None:
        show_list(told.steps, DIFFERING, form)
        return any(each.a or each.b for each in told.steps)
    _show(told.items, form)
    if told.more and form == "table":
        typer.echo(f"{told.more:,} more differ", err=True)
    return bool(told.items)


def _named(client: Client, where: str) -> str:
    """As the service names it: a savepoint by its number, a run by its id, with the epoch if one was named."""
    saved = _SAVEPOINT.fullmatch(where)
    if saved is not None:
        return saved[1]
    name, at, epoch = where.partition("@")
    return f"{run_named(client, name).id}{at}{epoch}"


def _show(items: list[StateEntryInfo], form: Form) -> None:
    if form != "table":
        show_list(items, {}, form)
        return
    names = list(dict.fromkeys(name for each in items for name in (*each.key, *each.values)))
    sides = ["in"] if any(each.side for each in items) else []
    rows = [[*([each.side] if sides else []), *(_cell(each, name) for name in names)] for each in items]
    show_rows([*sides, *names], rows)


def _cell(entry: StateEntryInfo, name: str) -> object:
    value = entry.key[name] if name in entry.key else entry.values.get(name)
    size = entry.cut.get(f"key.{name}" if name in entry.key else name)
    if size is None:
        return value
    text = value if isinstance(value, str) else json_text(value)
    return f"{text[:200]}… ({size:,} bytes)"
