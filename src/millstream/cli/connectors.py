"""`millstream connectors`: which there are, what one takes and promises, and a first look at those of a job."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import typer

from millstream.api.jobfile.target import load
from millstream.cli.failure import reported
from millstream.cli.options import Debug, JobArgument, Params, params_of, seconds_of
from millstream.cli.show import json_text, show_rows
from millstream.inspect.connectors.facts import (
    ConnectorFacts,
    ExtraFacts,
    OptionFacts,
    Role,
    connector_facts,
    guarantee_table,
    known_connectors,
)
from millstream.inspect.connectors.trying import FirstRows, SinkLook, try_step
from millstream.model.guarantee import Guarantee

app = typer.Typer(help="Connectors: which there are, what they take and promise, a first look.", no_args_is_help=True)
Format = Annotated[Literal["table", "json"], typer.Option("--format", "-o", "--output", help="How it is written.")]
_ROLES: tuple[Role, Role] = ("source", "sink")
_LONGEST = 200


@app.command(name="ls")
def list_connectors(
    *,
    format: Annotated[
        Literal["table", "json", "markdown"],
        typer.Option("--format", "-o", "--output", help="How it is written; markdown: by guarantee."),
    ] = "table",
    debug: Debug = False,
) -> None:
    """List the connectors that a job may name here: ours, and those of other packages."""
    with reported(debug=debug):
        known = known_connectors()
        if format == "json":
            for facts in known:
                typer.echo(json_text(_summary(facts)))
        elif format == "markdown":
            typer.echo("\n".join(guarantee_table(known)))
        else:
            show_rows(["connector", "source", "mode", "sink", "brought by", "needs"], [_row(facts) for facts in known])


def _row(facts: ConnectorFacts) -> list[str]:
    source, sink = (" or ".join(facts.capabilities(role)) for role in _ROLES)
    needs = facts.problem or "; ".join(map(_need, facts.extras))
    return [facts.name, source, facts.mode or "", sink, facts.package or "millstream", needs]


def _need(extra: ExtraFacts) -> str:
    state = "installed" if extra.is_installed else extra.command
    return f"{extra.name}: {state}" + (f", for {extra.when}" if extra.when else "")


def _summary(facts: ConnectorFacts) -> dict[str, Any]:
    return {
        "connector": facts.name,
        "source": facts.capabilities("source"),
        "mode": facts.mode,
        "sink": facts.capabilities("sink"),
        "package": facts.package or "millstream",
        "extras": [dataclasses.asdict(extra) for extra in facts.extras],
        "problem": facts.problem,
    }


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A connector.")],
    *,
    format: Format = "table",
    debug: Debug = False,
) -> None:
    """Show the options of a connector, what it promises with which of them, and what it needs."""
    with reported(debug=debug):
        facts = connector_facts(name)
        if format == "json":
            options = {role: [dataclasses.asdict(each) for each in of_role] for role, of_role in facts.options.items()}
            promises = [dataclasses.asdict(each) for each in facts.promises]
            typer.echo(json_text({**_summary(facts), "options": options, "promises": promises}))
            return
        typer.echo(f"{facts.name}, brought by {facts.package or 'millstream'}")
        for extra in facts.extras:
            typer.echo(f"  needs {_need(extra)}")
        for role, of_role in facts.options.items():
            typer.echo(f"\nas a {role}")
            show_rows(["option", "type", "default", "meaning"], [_option_row(each) for each in of_role])
        typer.echo("")
        rows = [[each.role, each.when or "-", each.capability, *each.guarantees.values()] for each in facts.promises]
        show_rows(["as a", "with", "capability", *(guarantee.value for guarantee in Guarantee)], rows)


def _option_row(option: OptionFacts) -> list[Any]:
    default = "required" if option.is_required else repr(option.default)
    return [option.name, option.type, default, option.doc]


@app.command(name="test")
def look_at_step(
    job: JobArgument,
    step: Annotated[str, typer.Argument(metavar="STEP", help="A source or sink of the job.")],
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows to read of a source.")] = 5,
    timeout: Annotated[str, typer.Option("--timeout", help="How long to wait for rows.")] = "30s",
    params: Params = None,
    format: Format = "table",
    debug: Debug = False,
) -> None:
    """Read the first rows of a source, or look whether a sink could write; nothing is kept, changed or acknowledged."""
    with reported(debug=debug):
        seconds = seconds_of(timeout, "--timeout")
        found = try_step(load(job), step, limit=limit, seconds=seconds, params=params_of(params))
        if format == "json":
            typer.echo(json_text(dataclasses.asdict(found)))
        elif isinstance(found, SinkLook):
            _show_look(found)
        else:
            _show_first(found)
        if isinstance(found, FirstRows) and not found.rows and not found.is_finished:
            raise typer.Exit(1)


def _show_look(look: SinkLook) -> None:
    typer.echo(f"sink {look.step!r}: {look.connector}")
    for line in look.found if look.found is not None else ["its connector offers no look: a run will show"]:
        typer.echo(f"  {line}")


def _show_first(first: FirstRows) -> None:
    typer.echo(f"source {first.step!r}: {first.connector}, {len(first.rows)} rows, {len(first.bad)} bad records")
    if first.rows:
        show_rows(list(first.rows[0]), [list(row.values()) for row in first.rows])
    for line in first.found:
        typer.echo(f"  {line}")
    for bad in first.bad:
        where = f" of {bad.origin}" if bad.origin else ""
        typer.echo(f"  bad record{where}: {bad.error}: {str(bad.raw)[:_LONGEST]}")
    for lost in first.lost:
        typer.echo(f"  lost: {lost.rows} rows, {lost.reason}")
    for partition, why in first.blocked.items():
        typer.echo(f"  partition {partition} stands still: {why}")
    if first.is_finished:
        typer.echo("  that is all there is")
    elif not first.rows and not first.bad:
        typer.echo("  nothing came in time; --timeout waits longer")
    elif first.lag:
        typer.echo(f"  {first.lag:,} more wait")
