"""`millstream savepoint`: take, list, look at, compare, check and remove savepoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from millstream.api.jobfile.target import load, model_of
from millstream.checkpoint.savepoint import Listed, Savepoint, dispose_savepoint, read_savepoint
from millstream.checkpoint.savepoint_files import Verified, verify_savepoint
from millstream.cli.failure import CONFLICT, reported
from millstream.cli.options import (
    Debug,
    EitherArgument,
    Id,
    Json,
    Manifests,
    Native,
    Parallelism,
    Timeout,
    To,
    seconds_of,
)
from millstream.cli.service.either import ask_service, is_job
from millstream.cli.service.options import Context, OutputForm, Quiet
from millstream.cli.service.savepoints import dispose_kept, list_kept, number_of, record_kept, verify_kept
from millstream.cli.show import json_text, show_rows
from millstream.inspect.asking import request_for
from millstream.inspect.checkpoint import open_view
from millstream.inspect.savepoint import take_from_outside
from millstream.inspect.savepoint_diff import SavepointDifference, diff_savepoints
from millstream.inspect.savepoints import Restorability, listed_facts, restorability, savepoints_in
from millstream.plan.compile import compile_job

app = typer.Typer(help="Take, list, inspect, compare, verify and remove savepoints.", no_args_is_help=True)
PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="The directory of a savepoint, or its number in the service.")
]


@app.command()
def create(
    checkpoint: EitherArgument,
    *,
    manifests: Manifests = None,
    to: To = None,
    id: Id = None,
    timeout: Timeout = "10m",
    native: Native = False,
    context: Context = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Take a savepoint: of a running job while it goes on, of a stopped one from its checkpoint."""
    with reported(debug=debug):
        if is_job(checkpoint):
            seconds = seconds_of(timeout, "--timeout")
            ask_service("savepoint", checkpoint, context, to=to, native=native, timeout=seconds, as_json=as_json)
            return
        request = request_for("savepoint", to=to, id=id, native=native)
        with open_view(checkpoint, manifests) as view:
            path = take_from_outside(view, request, seconds_of(timeout, "--timeout"))
        typer.echo(json_text({"id": request.id, "savepoint": path}) if as_json else f"savepoint {path}")


@app.command(name="list")
def list_command(
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="[DIR_OR_JOB]", help="A folder that holds savepoints, or a checkpoint; or a job of the service."
        ),
    ] = None,
    *,
    context: Context = None,
    output: OutputForm = "table",
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the savepoints of a folder, oldest first, with the reason where one cannot be read; or those of the service."""
    with reported(debug=debug):
        if folder is None or is_job(folder):
            list_kept(folder, context, "json" if as_json else output, quiet=quiet)
            return
        savepoints = savepoints_in(Path(folder))
        if as_json or output == "json":
            for listed in savepoints:
                typer.echo(json_text({"path": str(listed.path), **listed_facts(listed)}))
        else:
            names = ["path", "id", "kind", "job", "epoch", "keys", "created_at"]
            show_rows(names, [_row(listed) for listed in savepoints])


def _row(listed: Listed) -> list[Any]:
    facts = listed_facts(listed)
    if listed.problem is not None:
        return [str(listed.path), f"UNREADABLE {listed.problem.message}", "", "", "", "", ""]
    keys = facts["keys"] if facts["kind"] == "canonical" else None
    return [str(listed.path), facts["id"], facts["kind"], facts["job"], facts["epoch"], keys, facts["created_at"]]


@app.command()
def inspect(path: PathArgument, *, context: Context = None, as_json: Json = False, debug: Debug = False) -> None:
    """Show what a savepoint holds, from its record."""
    with reported(debug=debug):
        path, savepoint = _read(path, context)
        if as_json:
            typer.echo(json_text(msgspec.to_builtins(savepoint, str_keys=True)))
        else:
            _print_savepoint(path, savepoint)


def _read(target: str, context: str | None) -> tuple[str, Savepoint]:
    number = number_of(target)
    return (target, read_savepoint(target)) if number is None else record_kept(number, context)


def _print_savepoint(path: str, savepoint: Savepoint) -> None:
    typer.echo(f"savepoint {path}: {savepoint.kind}, id {savepoint.id}, by millstream {savepoint.version}")
    typer.echo(f"  job          {savepoint.job}, {savepoint.guarantee}, on {savepoint.engine}")
    typer.echo(f"  epoch        {savepoint.epoch} of lineage {savepoint.lineage}, token {savepoint.token}")
    typer.echo(f"  history      {', '.join(f'{lineage} up to {epoch}' for lineage, epoch in savepoint.history)}")
    typer.echo(f"  parallelism  {savepoint.parallelism}, {savepoint.key_groups} key groups")
    typer.echo(f"  created      {savepoint.created_at}")
    for step, position in savepoint.plan.get("sources", {}).items():
        typer.echo(f"  source       {step}: {json_text(position)}")
    for uid, layout in savepoint.layouts.items():
        slots = ", ".join(slot["name"] for slot in layout.get("slots", ())) or "columns"
        keys = f"{savepoint.entries(uid):,} keys, " if savepoint.kind == "canonical" else ""
        typer.echo(f"  state        {uid}: {layout['operation']} by ({layout['keys']}), {keys}{slots}")


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="The directory of a savepoint, or its number in the service.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The directory or number of another.")],
    *,
    context: Context = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what differs between two savepoints, from their records; `millstream state diff` compares the content."""
    with reported(debug=debug):
        difference = diff_savepoints(_read(a, context)[1], _read(b, context)[1])
        if as_json:
            typer.echo(json_text(msgspec.to_builtins(difference)))
        else:
            _print_difference(difference)


def _print_difference(difference: SavepointDifference) -> None:
    pairs = {**difference.general, **{f"source {name}": pair for name, pair in difference.sources.items()}}
    pairs |= {f"watermark {name}": pair for name, pair in difference.watermarks.items()}
    rows: list[list[Any]] = [[name, *pair, ""] for name, pair in pairs.items()]
    for step in difference.steps:
        what = "; ".join(step.layout) or ("" if step.presence == "both" else step.presence)
        rows.append([f"state {step.uid}", *(f"{entries:,} keys" for entries in step.entries), what])
    show_rows(["", "a", "b", "changes"], rows)


@app.command()
def verify(
    path: PathArgument,
    *,
    job: Annotated[
        str | None,
        typer.Option(
            "--job", help="Also say whether this job can be restored from it; of the service NAME or NAME@VERSION."
        ),
    ] = None,
    parallelism: Parallelism = None,
    allow_dropped_state: Annotated[
        bool, typer.Option("--allow-dropped-state", help="Judge as run --allow-dropped-state would.")
    ] = False,
    context: Context = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Read every file of a savepoint and compare it with the record; with --job also judge every step of that job."""
    with reported(debug=debug):
        if (number := number_of(path)) is not None:
            how: dict[str, Any] = {"parallelism": parallelism, "allow_dropped": allow_dropped_state}
            verify_kept(number, context, job=job, as_json=as_json, **how)
            return
        verified, verdict = verify_savepoint(path), None
        if job is not None:
            deployment = compile_job(model_of(load(job), parallelism)).deployment
            verdict = restorability(verified.savepoint, deployment, allow_dropped=allow_dropped_state)
        _print_verified(path, verified, verdict, as_json=as_json)
        if verdict is not None and verdict.obstacle is not None:
            raise typer.Exit(CONFLICT)


def _print_verified(path: str, verified: Verified, verdict: Restorability | None, *, as_json: bool) -> None:
    if as_json:
        content = {"path": path, "files": verified.files, "bytes": verified.bytes}
        typer.echo(json_text(content if verdict is None else {**content, **verdict.facts()}))
        return
    typer.echo(f"sound: {verified.files} files, {verified.bytes:,} bytes")
    if verdict is not None:
        typer.echo(verdict.report.text())
        typer.echo("can be restored" if verdict.obstacle is None else f"cannot be restored: {verdict.obstacle}")


@app.command()
def dispose(path: PathArgument, *, context: Context = None, as_json: Json = False, debug: Debug = False) -> None:
    """Remove a savepoint; a directory that is none is refused."""
    with reported(debug=debug):
        if (number := number_of(path)) is not None:
            dispose_kept(number, context, as_json=as_json)
            return
        dispose_savepoint(path)
        typer.echo(json_text({"disposed": path}) if as_json else f"disposed of {path}")
