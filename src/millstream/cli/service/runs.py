"""`status`, `logs`, `stop`, `rescale`: one run of a service, named by its job or its id."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.api.jobfile.target import BadTarget
from millstream.cli.failure import JOB_FAILED, reported
from millstream.cli.options import Debug
from millstream.cli.service.contexts import connect
from millstream.cli.service.following import waiting
from millstream.cli.service.jobs import run_named
from millstream.cli.service.options import Context, OutputForm, Quiet, RunArgument, Wait
from millstream.cli.service.output import show_one
from millstream.cli.service.vertices import show_vertices
from millstream.errors import ExternalFailure, UnknownName

if TYPE_CHECKING:
    from millstream.client import Client
    from millstream.client.values import OperationInfo, RunInfo

_ENDED = ("COMPLETED", "CANCELLED", "DEAD", "SUSPENDED")
_LOOK_SECONDS = 0.5


def status(
    run: RunArgument,
    *,
    context: Context = None,
    output: OutputForm = "table",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show how a run is: its state, how far it is, its vertices, what holds it back, and what went wrong last."""
    with reported(debug=debug), connect(context) as client:
        found = run_named(client, run)
        if quiet:
            typer.echo(found.status)
            return
        show_one(found, output, _lines(found))
        if output == "table":
            show_vertices(client, found.id)
            typer.echo("last events")
            for event in list(client.runs.events(found.id))[-5:]:
                typer.echo(f"  {event.time.isoformat()}  {event.after or event.kind}: {event.cause} ({event.actor})")


def _lines(run: RunInfo) -> list[tuple[str, object]]:
    progress = run.progress or {}
    error = None if run.error_message is None else f"[{run.error_code}] {run.error_message}"
    return [
        ("run", run.id),
        ("job", f"{run.job}, version {run.version}"),
        ("status", run.status if run.wanted is None else f"{run.status}, {run.wanted} was asked for"),
        ("node", run.node),
        ("attempt", f"{run.attempt}, retries {run.retry_count}"),
        ("started", run.start_time),
        ("ended", run.end_time),
        ("records", f"{run.processed_records:,} read, {run.failed_records:,} failed"),
        ("epoch", progress.get("epoch")),
        ("lag", progress.get("lag")),
        ("last error", error),
    ]


def logs(
    run: RunArgument,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run has ended.")] = False,
    stream: Annotated[str, typer.Option("--stream", help="Which process: driver, jvm.")] = "driver",
    context: Context = None,
    debug: Debug = False,
) -> None:
    """Print the log of a run's driver."""
    with reported(debug=debug), connect(context) as client:
        found, offset = run_named(client, run), 0
        while True:
            # Asked first: what a run says at last comes before its end is written down.
            is_over = not follow or client.runs.get(found.id).status in _ENDED
            part = client.runs.log(found.id, stream=stream, start=offset, limit=1 << 20)
            typer.echo(part.text, nl=False)
            has_more, offset = part.next < part.size, part.next
            if has_more:
                continue
            if is_over:
                return
            time.sleep(_LOOK_SECONDS)


def stop(
    run: RunArgument,
    *,
    drain: Annotated[bool, typer.Option("--drain", help="Read no more, publish, complete the job.")] = False,
    suspend: Annotated[bool, typer.Option("--suspend", help="Take a savepoint and end; it can be resumed.")] = False,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Where the savepoint goes.")] = "",
    native: Annotated[bool, typer.Option("--native", help="A fast copy, for the same plan only.")] = False,
    wait: Wait = True,
    context: Context = None,
    debug: Debug = False,
) -> None:
    """End a run: --drain completes the job, --suspend takes a savepoint from which it goes on."""
    with reported(debug=debug), connect(context) as client:
        if drain == suspend:
            msg = "say how the run is to end"
            raise BadTarget(msg, code="CLI-016", known="--drain, --suspend", hint="or cancel it: millstream cancel JOB")
        found = run_named(client, run)
        asked = client.runs.stop(
            found.id, "drain" if drain else "suspend", to=to, form="native" if native else "canonical"
        )
        done(client, asked, wait=wait)


def rescale(
    run: RunArgument,
    parallelism: Annotated[int, typer.Argument(min=1, help="Subtasks of every keyed step from now on.")],
    *,
    wait: Wait = True,
    context: Context = None,
    debug: Debug = False,
) -> None:
    """Suspend a run and start it again at another parallelism, as one operation."""
    with reported(debug=debug), connect(context) as client:
        done(client, client.runs.rescale(run_named(client, run).id, parallelism), wait=wait)


def done(client: Client, operation: str, *, wait: bool, timeout: float = 600.0) -> OperationInfo | None:
    """Wait for an operation, and say what came of it.

    Raises:
        typer.Exit: it could not be done.
    """
    if not wait:
        typer.echo(f"operation {operation}")
        return None
    ended = ended_well(client, operation, timeout=timeout)
    result = ended.result or {}
    told = {name: result[name] for name in ("status", "run", "path", "savepoint") if result.get(name)}
    typer.echo("; ".join(f"{name} {value}" for name, value in told.items()) or "done")
    return ended


def ended_well(client: Client, operation: str, *, timeout: float = 600.0, otherwise: int = JOB_FAILED) -> OperationInfo:
    """The operation when it is done; on stderr, how long it has taken so far.

    Raises:
        typer.Exit: it could not be done; `otherwise` is the exit code of that.
    """
    try:
        with waiting() as look:
            ended = client.wait(operation, timeout=timeout, look=look)
    except UnknownName as problem:
        msg = "the service has forgotten what it was asked"
        raise ExternalFailure(msg, code="CLI-017", found=operation, hint="look at the run") from problem
    if ended.status == "failed":
        error = ended.error or {}
        typer.echo(f"error [{error.get('code', '?')}] {error.get('message', 'it could not be done')}", err=True)
        if error.get("hint"):
            typer.echo(f"  fix: {error['hint']}", err=True)
        raise typer.Exit(otherwise)
    return ended
