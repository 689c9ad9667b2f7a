"""`millstream submit`: a job file goes to the service, as a new job or as a new version of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.api.jobfile.document import read_document
from millstream.api.jobfile.target import DECLARATIVE, BadTarget
from millstream.cli.failure import reported
from millstream.cli.options import Debug, Parallelism, Params, params_of
from millstream.cli.service.contexts import connect
from millstream.cli.service.following import follow
from millstream.cli.service.jobs import Watch
from millstream.cli.service.options import Context, OutputForm, Quiet
from millstream.cli.service.output import show_one
from millstream.cli.service.stores import packed
from millstream.errors import StateConflict

if TYPE_CHECKING:
    from millstream.client import Client
    from millstream.client.values import JobInfo, RunInfo


def submit(
    target: Annotated[
        str, typer.Argument(metavar="JOB", help="A job file: .yaml, .yml, .json, or path.py[:variable].")
    ],
    *,
    include: Annotated[
        list[Path] | None,
        typer.Option("--include", metavar="PATH", help="What a job in Python imports from beside it."),
    ] = None,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start a run at once.")] = True,
    watch: Watch = False,
    parallelism: Parallelism = None,
    params: Params = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("-S", "--set", metavar="KEY=VALUE", help="A setting of the job, such as engine=local."),
    ] = None,
    from_savepoint: Annotated[
        str | None, typer.Option("--from-savepoint", metavar="DIR", help="Go on from there.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="What the job is for.")] = None,
    context: Context = None,
    output: OutputForm = "table",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Submit a job to the service, as a new one or as a new version of the one it has, and start it."""
    with reported(debug=debug), connect(context) as client:
        document, artifact = _definition(client, target, include or [])
        more: dict[str, Any] = {"parallelism": parallelism, "settings": settings_of(settings), "artifact": artifact}
        more["description"] = description
        job = _submitted(client, document, {name: value for name, value in more.items() if value is not None})
        run = _started(client, job, start=start, params=params, from_savepoint=from_savepoint)
        if quiet:
            typer.echo(job.name if run is None else run.id)
        elif output == "table":
            typer.echo(f"job {job.name}, version {job.version}" + ("" if run is None else f", run {run.id}"))
        else:
            show_one(job if run is None else run, output, ())
        if run is not None and watch:
            follow(client, run.id, quiet=quiet)


def _definition(client: Client, target: str, include: list[Path]) -> tuple[dict[str, Any], str | None]:
    """A job file as it is, or the entry of a job in Python whose code was uploaded."""
    path, _, variable = target.partition(":")
    if Path(path).suffix in DECLARATIVE and not variable:
        return dict(read_document(Path(path)).content), _uploaded(client, None, include)
    if path.endswith(".py") and Path(path).is_file():
        entry = Path(path).name + (f":{variable}" if variable else "")
        return {"kind": "code", "entry": entry}, _uploaded(client, Path(path), include)
    msg = "JOB is no job file that can be submitted"
    known = "path.yaml, path.yml, path.json, path.py, path.py:variable"
    raise BadTarget(msg, code="CLI-015", found=repr(target), known=known, hint="check the path")


def _uploaded(client: Client, file: Path | None, include: list[Path]) -> str | None:
    if file is None and not include:
        return None
    first, *others = include if file is None else [file, *include]
    return client.artifacts.upload(packed(first, others)).sha256


def settings_of(given: list[str] | None) -> dict[str, Any] | None:
    """`KEY=VALUE`, where a dot leads into a setting that has parts, and values are read as YAML."""
    if not given:
        return None
    import yaml

    settings: dict[str, Any] = {}
    for each in given:
        path, equals, value = each.partition("=")
        if not equals:
            msg = "a setting is a name and a value"
            raise BadTarget(msg, code="CLI-014", found=repr(each), known="KEY=VALUE", hint="write -S engine=local")
        *outer, last = path.split(".")
        place = settings
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = yaml.safe_load(value)
    return settings


def _submitted(client: Client, document: dict[str, Any], more: dict[str, Any]) -> JobInfo:
    """A job that is there already gets a new version, unless nothing about it is new."""
    try:
        return client.jobs.submit(document, **more)
    except StateConflict as conflict:
        if conflict.code != "CTL-021" or conflict.found is None:
            raise
        name = conflict.found.strip("'")
    seen = client.jobs.get(name)
    more.setdefault("settings", seen.settings)
    is_same = seen.dag_definition.get("document", seen.dag_definition) == document
    is_same = is_same and more["settings"] == seen.settings and more.get("artifact") == seen.artifact
    return seen if is_same and more.get("parallelism") is None else client.jobs.change(seen, document, **more)


def _started(
    client: Client, job: JobInfo, *, start: bool, params: list[str] | None, from_savepoint: str | None
) -> RunInfo | None:
    if not start:
        return None
    options: dict[str, Any] = {"params": params_of(params) or {}, "from_savepoint": from_savepoint}
    return client.jobs.start(job.name, **{name: value for name, value in options.items() if value})
