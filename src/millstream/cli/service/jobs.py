"""`list`, `start`, `delete`, `enable`, `disable`: jobs of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.failure import reported
from millstream.cli.options import Debug, Parallelism, Params, params_of
from millstream.cli.service.contexts import connect
from millstream.cli.service.following import follow
from millstream.cli.service.options import Context, JobName, OutputForm, Quiet, Yes
from millstream.cli.service.output import show_list, show_one
from millstream.errors import UnknownName

if TYPE_CHECKING:
    from millstream.client import Client
    from millstream.client.values import RunInfo

_JOB_COLUMNS = {
    "JOB": "name",
    "TYPE": "type",
    "VERSION": "version",
    "DESIRED": "desired",
    "STATUS": "run.status",
    "RUN": "run.id",
}
_RUN_COLUMNS = {"RUN": "id", "JOB": "job", "STATUS": "status", "ATTEMPT": "attempt", "RECORDS": "processed_records"}
Watch = Annotated[bool, typer.Option("--wait", "--watch", help="Follow the run to its end.")]


def list_jobs(
    *,
    runs: Annotated[bool, typer.Option("--runs", help="Runs instead of jobs.")] = False,
    state: Annotated[str | None, typer.Option("--state", help="Only those in this state.")] = None,
    context: Context = None,
    output: OutputForm = "table",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the jobs of the service, or its runs."""
    with reported(debug=debug), connect(context) as client:
        if runs:
            show_list(client.runs.list(status=state), _RUN_COLUMNS, output, quiet=quiet)
        else:
            show_list(client.jobs.list(state=state), _JOB_COLUMNS, output, quiet=quiet)


def start(
    job: JobName,
    *,
    watch: Watch = False,
    params: Params = None,
    parallelism: Parallelism = None,
    from_savepoint: Annotated[
        str | None, typer.Option("--from-savepoint", metavar="DIR", help="Go on from there.")
    ] = None,
    allow_dropped_state: Annotated[
        bool, typer.Option("--allow-dropped-state", help="Leave state behind that no step takes.")
    ] = False,
    ignore_state_once: Annotated[
        bool, typer.Option("--ignore-state-once", help="Give the checkpoint's state up.")
    ] = False,
    trigger: Annotated[str | None, typer.Option("--trigger-id", help="The same id again starts nothing new.")] = None,
    context: Context = None,
    output: OutputForm = "table",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Start a run of a job that was submitted."""
    with reported(debug=debug), connect(context) as client:
        wishes: dict[str, Any] = {
            "params": params_of(params) or {},
            "parallelism": parallelism,
            "from_savepoint": from_savepoint,
        }
        wishes |= {"allow_dropped_state": allow_dropped_state, "ignore_state_once": ignore_state_once}
        run = client.jobs.start(job, trigger_id=trigger, **{name: value for name, value in wishes.items() if value})
        show_one(run, output, [("run", run.id), ("status", run.status)], quiet=quiet)
        if watch:
            follow(client, run.id, quiet=quiet)


def delete(job: JobName, *, yes: Yes = False, context: Context = None, debug: Debug = False) -> None:
    """Delete a job that does not run. Its checkpoint stays until `checkpoint rm`, its savepoints stay."""
    with reported(debug=debug), connect(context) as client:
        if not yes:
            typer.confirm(f"delete job {job}?", abort=True)
        client.jobs.delete(job)
        typer.echo(f"job {job} is deleted; its checkpoint and savepoints are still there")


def enable(job: JobName, *, context: Context = None, debug: Debug = False) -> None:
    """Let a job be started again."""
    _switch(job, context, debug=debug, enabled=True)


def disable(job: JobName, *, context: Context = None, debug: Debug = False) -> None:
    """Let no new run of a job start; one that runs goes on."""
    _switch(job, context, debug=debug, enabled=False)


def _switch(job: str, context: str | None, *, debug: bool, enabled: bool) -> None:
    with reported(debug=debug), connect(context) as client:
        client.jobs.set(job, enabled=enabled)
        typer.echo(f"job {job} is {'enabled' if enabled else 'disabled'}")


def run_named(client: Client, name: str) -> RunInfo:
    """The newest run of a job, or the run of an id."""
    try:
        newest = next(iter(client.jobs.runs(name)), None)
    except UnknownName:
        return client.runs.get(name)
    if newest is None:
        msg = f"job {name!r} has never run"
        raise UnknownName(msg, code="CTL-034", found=repr(name), hint=f"millstream start {name}")
    return newest
