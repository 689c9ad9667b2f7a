"""`millstream state`: read what the steps of a job have stored; nothing is changed, and the job may run meanwhile.

A path is a checkpoint or a savepoint, a name a job of the service.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated

import pyarrow as pa
import typer

from millstream.cli.failure import reported
from millstream.cli.options import Debug, Json, Manifests
from millstream.cli.service import states
from millstream.cli.service.either import is_job
from millstream.cli.service.options import Context, Form, OutputForm
from millstream.cli.service.output import show_list
from millstream.cli.show import plain_row, show_table
from millstream.inspect.state.steps import differences, step_facts
from millstream.inspect.state.stored import StoredState, open_state, readable
from millstream.inspect.state.view import state_diff, state_get, state_table

app = typer.Typer(
    help="Read stored state: of a checkpoint, a savepoint or a job of the service, at any retained epoch.",
    no_args_is_help=True,
)
Where = Annotated[
    str,
    typer.Argument(
        metavar="WHERE",
        help="A path: a checkpoint or savepoint; a name: a job of the service, or savepoint:NUMBER.",
    ),
]
Epoch = Annotated[int | None, typer.Option("--epoch", help="A retained epoch; the newest by default.")]
_AT = re.compile(r"(.+)@(\d+)")


@app.command(name="ls")
def list_steps(
    where: Where,
    *,
    epoch: Epoch = None,
    manifests: Manifests = None,
    count: Annotated[bool, typer.Option("--count", help="Count keys even where that starts Spark.")] = False,
    context: Context = None,
    output: OutputForm = "table",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the steps that keep state: keys, what is kept per key, and how many keys there are."""
    form = "json" if as_json else output
    with reported(debug=debug):
        if _is_of_service(where):
            states.list_state(_of_service(where, epoch), context, counted=count, form=form)
            return
        state = open_state(where, epoch, manifests)
        rows = step_facts(state, counted=count or state.is_cheap)
        if form == "table":
            typer.echo(f"{state.job}, epoch {state.epoch}, written on {state.engine}")
        about = {} if form == "table" else {"job": state.job, "epoch": state.epoch}
        show_list([{**about, **row} for row in rows], states.STEPS, form)


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
    state: Annotated[
        str | None, typer.Option("--state", help="One state of the step; of a job of the service.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Keys that begin so; of a job of the service.")] = "",
    limit: Annotated[int, typer.Option("--limit", help="At most that many rows.")] = 100,
    context: Context = None,
    output: OutputForm = "table",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a step has stored for a key, or for its first keys; exit code 1 when there is nothing."""
    form = "json" if as_json else output
    with reported(debug=debug):
        if _is_of_service(where):
            wanted = states.WantedEntries(step=step, key=key, state=state, prefix=prefix, limit=limit)
            states.get_state(_of_service(where, epoch), context, wanted, form=form)
            return
        if state is not None or prefix:
            msg = "--state and --prefix are for jobs of the service"
            raise typer.BadParameter(msg)
        stored = open_state(where, epoch, manifests).step(step)
        table = state_get(stored, key) if key else state_table(stored)
        _show(readable(table, stored.layout).slice(0, limit), form)
        if table.num_rows > limit and form == "table":
            typer.echo(f"{table.num_rows - limit:,} more; --limit shows them", err=True)
        if not table.num_rows:
            raise typer.Exit(1)


@app.command()
def diff(
    a: Annotated[
        str, typer.Argument(metavar="A", help="A checkpoint, a savepoint, or a job of the service, each also @EPOCH.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    step: Annotated[str | None, typer.Argument(metavar="STEP", help="Show the keys of this step that differ.")] = None,
    *,
    manifests: Manifests = None,
    context: Context = None,
    output: OutputForm = "table",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare stored state; exit code 1 when something differs."""
    form = "json" if as_json else output
    with reported(debug=debug):
        if _is_of_service(a) and _is_of_service(b):
            if states.diff_state(_of_service(a, None), _of_service(b, None), context, step, form=form):
                raise typer.Exit(1)
            return
        pair = [_at(text, manifests) for text in (a, b)]
        if step is not None:
            table = readable(state_diff(*(state.step(step) for state in pair)), pair[0].layout(step))
            _show(table, form)
            differs = table.num_rows > 0
        else:
            differs = _show_steps(*pair, form=form)
        if differs:
            raise typer.Exit(1)


def _show_steps(a: StoredState, b: StoredState, *, form: Form) -> bool:
    """A line per step: how many keys differ."""
    compared = differences(a, b)
    show_list([dataclasses.asdict(each) for each in compared], states.DIFFERING, form)
    return not all(each.is_none for each in compared)


def _show(table: pa.Table, form: Form) -> None:
    if form == "yaml":
        show_list([plain_row(row) for row in table.to_pylist()], {}, form)
    else:
        show_table(table, as_json=form == "json")


def _is_of_service(where: str) -> bool:
    """`NAME` or `NAME@EPOCH`; a folder of that name comes first."""
    match = _AT.fullmatch(where)
    return is_job(where) and is_job(match[1] if match else where)


def _of_service(where: str, epoch: int | None) -> str:
    return where if epoch is None else f"{where}@{epoch}"


def _at(text: str, manifests: str | None) -> StoredState:
    match = _AT.fullmatch(text)
    if match is None:
        return open_state(text, None, manifests)
    return open_state(match[1], int(match[2]), manifests)
