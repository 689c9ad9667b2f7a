"""`millstream state`: read what the steps of a job have stored; nothing is changed, and the job may run meanwhile."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated

import typer

from millstream.cli.failure import reported
from millstream.cli.options import Debug, Json, Manifests
from millstream.cli.show import json_text, show_rows, show_table
from millstream.inspect.state.steps import differences, step_facts
from millstream.inspect.state.stored import StoredState, open_state, readable
from millstream.inspect.state.view import state_diff, state_get, state_table

app = typer.Typer(
    help="Read stored state: of a checkpoint or a savepoint, at any retained epoch.", no_args_is_help=True
)
Where = Annotated[str, typer.Argument(metavar="WHERE", help="A checkpoint directory or a savepoint directory.")]
Epoch = Annotated[int | None, typer.Option("--epoch", help="A retained epoch; the newest by default.")]
_AT = re.compile(r"(.+)@(\d+)")


@app.command(name="ls")
def list_steps(
    where: Where,
    *,
    epoch: Epoch = None,
    manifests: Manifests = None,
    count: Annotated[bool, typer.Option("--count", help="Count keys even where that starts Spark.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the steps that keep state: keys, what is kept per key, and how many keys there are."""
    with reported(debug=debug):
        state = open_state(where, epoch, manifests)
        rows = step_facts(state, counted=count or state.is_cheap)
        if as_json:
            for row in rows:
                typer.echo(json_text({"job": state.job, "epoch": state.epoch, **row}))
        else:
            typer.echo(f"{state.job}, epoch {state.epoch}, written on {state.engine}")
            show_rows(["step", "operation", "key", "state", "keys"], [list(row.values()) for row in rows])


@app.command()
def get(
    where: Where,
    step: Annotated[str, typer.Argument(metavar="STEP", help="Id or uid of a keyed step.")],
    key: Annotated[
        list[str] | None, typer.Argument(metavar="KEY...", help="One value per key column; all keys without it.")
    ] = None,
    *,
    epoch: Epoch = None,
    manifests: Manifests = None,
    limit: Annotated[int, typer.Option("--limit", help="At most that many rows.")] = 100,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a step has stored for a key, or for its first keys; exit code 1 when there is nothing."""
    with reported(debug=debug):
        stored = open_state(where, epoch, manifests).step(step)
        table = state_get(stored, key) if key else state_table(stored)
        show_table(readable(table, stored.layout).slice(0, limit), as_json=as_json)
        if table.num_rows > limit and not as_json:
            typer.echo(f"{table.num_rows - limit:,} more; --limit shows them", err=True)
        if not table.num_rows:
            raise typer.Exit(1)


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A checkpoint or savepoint directory, or DIR@EPOCH.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    step: Annotated[str | None, typer.Argument(metavar="STEP", help="Show the keys of this step that differ.")] = None,
    *,
    manifests: Manifests = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare stored state; exit code 1 when something differs."""
    with reported(debug=debug):
        states = [_at(text, manifests) for text in (a, b)]
        if step is not None:
            table = readable(state_diff(*(state.step(step) for state in states)), states[0].layout(step))
            show_table(table, as_json=as_json)
            differs = table.num_rows > 0
        else:
            differs = _show_steps(*states, as_json=as_json)
        if differs:
            raise typer.Exit(1)


def _show_steps(a: StoredState, b: StoredState, *, as_json: bool) -> bool:
    """A line per step: how many keys differ."""
    compared = differences(a, b)
    if as_json:
        for each in compared:
            typer.echo(json_text(dataclasses.asdict(each)))
    else:
        show_rows(
            ["step", "only or other in a", "only or other in b"], [[each.step, each.a, each.b] for each in compared]
        )
    return not all(each.is_none for each in compared)


def _at(text: str, manifests: str | None) -> StoredState:
    match = _AT.fullmatch(text)
    if match is None:
        return open_state(text, None, manifests)
    return open_state(match[1], int(match[2]), manifests)
