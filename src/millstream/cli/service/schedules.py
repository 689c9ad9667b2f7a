"""`millstream schedule`: when jobs of the service run by themselves."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from millstream.api.jobfile.document import read_document
from millstream.api.jobfile.target import BadTarget
from millstream.cli.failure import reported
from millstream.cli.options import Debug
from millstream.cli.service.contexts import connect
from millstream.cli.service.options import Context, JobName, OutputForm, Quiet, Yes
from millstream.cli.service.output import show_list, show_one
from millstream.errors import UnknownName

app = typer.Typer(help="Schedules: when jobs run by themselves.", no_args_is_help=True)
_FIRES = {"TIME": "fire_time", "CAUSE": "cause", "RESULT": "result", "RUN": "run", "REASON": "reason"}
_LISTED = {
    "JOB": "job",
    "TYPE": "schedule.type",
    "CRON": "schedule.cron",
    "ENABLED": "enabled",
    "NEXT": "next_trigger_time",
}


@app.command("add")
def add(
    job: JobName,
    *,
    cron: Annotated[str | None, typer.Option("--cron", help="Five fields: minute, hour, day, month, weekday.")] = None,
    time_zone: Annotated[str, typer.Option("--time-zone", help="Of the cron fields.")] = "UTC",
    after: Annotated[
        list[str] | None, typer.Option("--after", metavar="JOB", help="Run behind that job's success.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A file with schedule: as the guide shows it.")] = None,
    misfire: Annotated[
        Literal["skip", "one", "all"], typer.Option("--misfire", help="What becomes of missed fires.")
    ] = "one",
    concurrency: Annotated[
        str, typer.Option("--concurrency", help="skip, queue(n), cancel_running or allow(n).")
    ] = "skip",
    context: Context = None,
    output: OutputForm = "table",
    debug: Debug = False,
) -> None:
    """Give a job a schedule, in the place of the one it has."""
    with reported(debug=debug), connect(context) as client:
        policies = {"misfire": misfire, "concurrency": concurrency}
        saved = client.schedules.set(job, _written(cron, time_zone, after, file, policies))
        show_one(saved, output, [("job", job), ("next", ", ".join(each.isoformat() for each in saved.next) or None)])


def _written(
    cron: str | None, time_zone: str, after: list[str] | None, file: Path | None, policies: dict[str, str]
) -> dict[str, Any]:
    if sum(each is not None for each in (cron, after, file)) != 1:
        msg = "say what the job waits for"
        raise BadTarget(msg, code="CLI-019", known="--cron, --after or --file", hint="give exactly one of them")
    if cron is not None:
        return {"type": "cron", "cron": cron, "time_zone": time_zone, **policies}
    if after is not None:
        return {
            "type": "dependency",
            "upstream": [{"job": each} for each in after],
            "concurrency": policies["concurrency"],
        }
    assert file is not None, "one of the three was given"
    content = read_document(file).content
    return dict(content.get("schedule", content))


@app.command("ls")
def list_schedules(
    *, context: Context = None, output: OutputForm = "table", quiet: Quiet = False, debug: Debug = False
) -> None:
    """List jobs that have a schedule, with their next fire."""
    with reported(debug=debug), connect(context) as client:
        found = []
        for job in client.jobs.list():
            try:
                found.append(client.schedules.get(job.name))
            except UnknownName:
                continue
        show_list(found, _LISTED, output, quiet=quiet)


@app.command()
def pause(job: JobName, *, context: Context = None, debug: Debug = False) -> None:
    """Let a schedule decide nothing until it is resumed."""
    with reported(debug=debug), connect(context) as client:
        client.schedules.pause(job)
        typer.echo(f"the schedule of {job} is paused")


@app.command()
def resume(job: JobName, *, context: Context = None, debug: Debug = False) -> None:
    """Let a schedule go on, from now."""
    with reported(debug=debug), connect(context) as client:
        client.schedules.resume(job)
        typer.echo(f"the schedule of {job} goes on")


@app.command("next")
def next_fires(
    job: JobName,
    *,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=100, help="How many.")] = 5,
    context: Context = None,
    output: OutputForm = "table",
    debug: Debug = False,
) -> None:
    """Print when a job runs next."""
    with reported(debug=debug), connect(context) as client:
        fires = [{"job": job, "time": each.isoformat()} for each in client.schedules.next(job, count=count)]
        show_list(fires, {"TIME": "time"}, output, quiet=output == "table")


@app.command()
def fires(job: JobName, *, context: Context = None, output: OutputForm = "table", debug: Debug = False) -> None:
    """List what was decided: what ran, what was skipped, and why."""
    with reported(debug=debug), connect(context) as client:
        show_list(client.schedules.fires(job), _FIRES, output)


@app.command()
def fire(job: JobName, *, context: Context = None, debug: Debug = False) -> None:
    """Fire a schedule by hand, now."""
    with reported(debug=debug), connect(context) as client:
        fired = client.schedules.fire(job)
        typer.echo(f"{fired.result}: run {fired.run}" if fired.run else f"{fired.result}: {fired.reason}")


@app.command()
def remove(job: JobName, *, context: Context = None, debug: Debug = False) -> None:
    """Take the schedule of a job away."""
    with reported(debug=debug), connect(context) as client:
        client.schedules.delete(job)
        typer.echo(f"{job} has no schedule")


@app.command()
def backfill(
    job: JobName,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="RFC 3339, such as 2026-03-01T00:00:00Z.")],
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="The end, which is not part of it.")],
    *,
    order: Annotated[Literal["oldest", "newest"], typer.Option("--order", help="Which comes first.")] = "oldest",
    max_parallel: Annotated[int, typer.Option("--max-parallel", min=1, help="Runs at the same time.")] = 1,
    yes: Yes = False,
    context: Context = None,
    debug: Debug = False,
) -> None:
    """Run a job for a stretch of the past: first shown, then asked, then done."""
    with reported(debug=debug), connect(context) as client:
        span: dict[str, Any] = {"order": order, "max_parallel": max_parallel}
        begin, end = _instant(start, "--from"), _instant(to, "--to")
        preview = client.schedules.backfill(job, begin, end, dry_run=True, **span)
        for each in preview.intervals:
            typer.echo(f"{each.start.isoformat()} to {each.end.isoformat()}")
        if not yes:
            typer.confirm(f"start {len(preview.intervals)} runs of {job}?", abort=True)
        typer.echo(f"backfill {client.schedules.backfill(job, begin, end, **span).id}")


def _instant(text: str, option: str) -> dt.datetime:
    try:
        instant = dt.datetime.fromisoformat(text)
    except ValueError:
        msg = f"{option} is no time"
        raise BadTarget(msg, code="CLI-020", found=repr(text), known="RFC 3339", hint="2026-03-01T00:00:00Z") from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=dt.UTC)
