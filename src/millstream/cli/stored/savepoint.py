"""`millstream savepoint`: take, list, look at, compare, check and remove savepoints."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from millstream.api.running.control import Request
from millstream.checkpoint.savepoint import (
    Listed,
    Savepoint,
    dispose_savepoint,
    list_savepoints,
    read_savepoint,
    safe_name,
)
from millstream.checkpoint.savepoint_files import Verified, verify_savepoint
from millstream.cli.failure import CONFLICT, reported
from millstream.cli.jobs.asking import Id, Native, Timeout, To, answered_before, ask, request_for
from millstream.cli.jobs.target import load
from millstream.cli.options import CheckpointArgument, Debug, Json, Manifests, Parallelism, model_of, seconds_of
from millstream.cli.show import json_text, show_rows
from millstream.errors import CheckpointRefused
from millstream.inspect.checkpoint import CheckpointView, open_view
from millstream.inspect.savepoint import save_stopped
from millstream.inspect.savepoint_diff import SavepointDifference, diff_savepoints
from millstream.jobmaster.compatibility import CompatibilityReport, compare, shape_of
from millstream.jobmaster.resume import shape_of_savepoint
from millstream.plan.compile import compile_job

app = typer.Typer(help="Take, list, inspect, compare, verify and remove savepoints.", no_args_is_help=True)
PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="The directory of a savepoint.")]


@app.command()
def create(
    checkpoint: CheckpointArgument,
    *,
    manifests: Manifests = None,
    to: To = None,
    id: Id = None,
    timeout: Timeout = "10m",
    native: Native = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Take a savepoint: of a running job while it goes on, of a stopped one from its checkpoint."""
    with reported(debug=debug):
        request = request_for("savepoint", to=to, id=id, native=native)
        with open_view(checkpoint, manifests) as view:
            path = _taken(view, request, seconds_of(timeout, "--timeout"))
        typer.echo(json_text({"id": request.id, "savepoint": path}) if as_json else f"savepoint {path}")


def _taken(view: CheckpointView, request: Request, seconds: float) -> str:
    if view.is_running or answered_before(view, request) is not None:
        return ask(view, request, seconds).path
    folder = Path(request.to) if request.to else view.root.resolve() / "savepoints"
    path = folder / f"savepoint-{safe_name(request.id)}"
    save_stopped(view, path, request.id, request.form)
    return str(path)


@app.command(name="list")
def list_command(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A folder that holds savepoints, or a checkpoint.")],
    *,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the savepoints of a folder, oldest first; those that cannot be read are named with the reason."""
    with reported(debug=debug):
        _require_folder(Path(folder))
        # Whoever names a checkpoint means the savepoints that it keeps by default.
        inside = Path(folder) / "savepoints"
        found = [*list_savepoints(folder), *(list_savepoints(inside) if inside.is_dir() else ())]
        if as_json:
            for listed in found:
                typer.echo(json_text({"path": str(listed.path), **_facts(listed)}))
        else:
            names = ["path", "id", "kind", "job", "epoch", "keys", "created_at"]
            show_rows(names, [_row(listed) for listed in found])


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        msg = f"there is no folder {folder}"
        raise CheckpointRefused(
            msg,
            code="SAVE-021",
            found="a file" if folder.exists() else "nothing",
            hint="give the folder that holds savepoints, or the directory of --checkpoint",
        )


def _facts(listed: Listed) -> dict[str, Any]:
    if listed.savepoint is None:
        assert listed.problem is not None, "a savepoint or a reason"
        return {"problem": listed.problem.fields()}
    savepoint = listed.savepoint
    fields = ("id", "kind", "job", "lineage", "epoch", "engine", "parallelism", "created_at", "version")
    keys = sum(savepoint.entries(uid) for uid in savepoint.layouts)
    return {**{name: getattr(savepoint, name) for name in fields}, "keys": keys}


def _row(listed: Listed) -> list[Any]:
    facts = _facts(listed)
    if listed.problem is not None:
        return [str(listed.path), f"UNREADABLE {listed.problem.message}", "", "", "", "", ""]
    keys = facts["keys"] if facts["kind"] == "canonical" else None
    return [str(listed.path), facts["id"], facts["kind"], facts["job"], facts["epoch"], keys, facts["created_at"]]


@app.command()
def inspect(path: PathArgument, *, as_json: Json = False, debug: Debug = False) -> None:
    """Show what a savepoint holds, from its record."""
    with reported(debug=debug):
        savepoint = read_savepoint(path)
        if as_json:
            typer.echo(json_text(msgspec.to_builtins(savepoint, str_keys=True)))
        else:
            _print_savepoint(path, savepoint)


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
    a: Annotated[str, typer.Argument(metavar="A", help="The directory of a savepoint.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The directory of another.")],
    *,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what differs between two savepoints, from their records; `millstream state diff` compares the content."""
    with reported(debug=debug):
        difference = diff_savepoints(read_savepoint(a), read_savepoint(b))
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
    job: Annotated[str | None, typer.Option("--job", help="Also say whether this job can be restored from it.")] = None,
    parallelism: Parallelism = None,
    allow_dropped_state: Annotated[
        bool, typer.Option("--allow-dropped-state", help="Judge as run --allow-dropped-state would.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Read every file of a savepoint and compare it with the record; with --job also judge every step of that job."""
    with reported(debug=debug):
        found = verify_savepoint(path)
        report = None
        if job is not None:
            report = _report(found.savepoint, job, parallelism, allow_dropped=allow_dropped_state)
        _print_verified(path, found, report, as_json=as_json)
        if report is not None and _obstacle(found.savepoint, report) is not None:
            raise typer.Exit(CONFLICT)


def _obstacle(savepoint: Savepoint, report: CompatibilityReport) -> str | None:
    """Why a restore would be refused."""
    refusal = report.refusal()
    if refusal is not None:
        return refusal.hint
    if savepoint.kind == "native" and not report.is_same_plan:
        return "a native savepoint is restored by the plan that wrote it; take a canonical one there"
    return None


def _report(savepoint: Savepoint, job: str, parallelism: int | None, *, allow_dropped: bool) -> CompatibilityReport:
    deployment = compile_job(model_of(load(job), parallelism)).deployment
    return compare(shape_of_savepoint(savepoint), shape_of(deployment), allow_dropped=allow_dropped)


def _print_verified(path: str, found: Verified, report: CompatibilityReport | None, *, as_json: bool) -> None:
    if as_json:
        content: dict[str, Any] = {"path": path, "files": found.files, "bytes": found.bytes}
        if report is not None:
            content["lines"] = [{**dataclasses.asdict(line), "details": line.details} for line in report.lines]
            content |= {
                "is_same_plan": report.is_same_plan,
                "is_restorable": _obstacle(found.savepoint, report) is None,
            }
        typer.echo(json_text(content))
        return
    typer.echo(f"sound: {found.files} files, {found.bytes:,} bytes")
    if report is not None:
        typer.echo(report.text())
        obstacle = _obstacle(found.savepoint, report)
        typer.echo("can be restored" if obstacle is None else f"cannot be restored: {obstacle}")


@app.command()
def dispose(path: PathArgument, *, as_json: Json = False, debug: Debug = False) -> None:
    """Remove a savepoint; a directory that is none is refused."""
    with reported(debug=debug):
        dispose_savepoint(path)
        typer.echo(json_text({"disposed": path}) if as_json else f"disposed of {path}")
