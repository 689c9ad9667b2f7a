"""Savepoints of a service: what the commands of `millstream savepoint` do where a number stands in the place of a path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from millstream.checkpoint.savepoint import Savepoint
from millstream.cli.failure import CONFLICT
from millstream.cli.service.contexts import connect
from millstream.cli.service.options import Form
from millstream.cli.service.output import show_list
from millstream.cli.service.runs import ended_well
from millstream.cli.show import json_text

if TYPE_CHECKING:
    from millstream.client import Client

_COLUMNS = {
    "ID": "id",
    "JOB": "job",
    "VERSION": "job_version",
    "EPOCH": "epoch",
    "FORMAT": "format",
    "SIZE": "size",
    "STATUS": "status",
    "CREATED": "create_time",
    "PATH": "path",
}


def number_of(target: str) -> int | None:
    """The number of a savepoint of the service, unless there is a folder of that name here."""
    is_number = target.isascii() and target.isdigit() and not Path(target).exists()
    return int(target) if is_number else None


def list_kept(job: str | None, context: str | None, form: Form, *, quiet: bool) -> None:
    """Those of the service, or of one of its jobs."""
    with connect(context) as client:
        show_list(client.savepoints.list(job=job), _COLUMNS, form, quiet=quiet)


def record_kept(number: int, context: str | None) -> tuple[str, Savepoint]:
    """Where a savepoint of the service is, and its record."""
    with connect(context) as client:
        return client.savepoints.get(number).path, _record(client, number)


def _record(client: Client, number: int) -> Savepoint:
    return msgspec.convert(client.savepoints.record(number), Savepoint)


def verify_kept(
    number: int, context: str | None, *, job: str | None, parallelism: int | None, allow_dropped: bool, as_json: bool
) -> None:
    """Let the service read every file, and judge a job of its own.

    Raises:
        typer.Exit: the savepoint is damaged, or the job cannot start from it.
    """
    name, _, version = (job or "").partition("@")
    with connect(context) as client:
        asked = client.savepoints.verify(
            number,
            job=name or None,
            version=int(version) if version.isdigit() else None,
            parallelism=parallelism,
            allow_dropped_state=allow_dropped,
        )
        result = ended_well(client, asked, otherwise=CONFLICT).result or {}
    verdict = result.get("compatibility")
    if as_json:
        typer.echo(json_text(result))
    else:
        typer.echo(f"sound: {result['files']} files, {result['bytes']:,} bytes")
        _show_verdict(verdict)
    if verdict is not None and not verdict["is_restorable"]:
        raise typer.Exit(CONFLICT)


def _show_verdict(verdict: dict[str, Any] | None) -> None:
    if verdict is None:
        return
    for line in verdict["lines"]:
        details = "; ".join(line["details"])
        typer.echo(f"{line['kind']:<6}  {line['uid']}  {line['level']}" + (f"  {details}" if details else ""))
    can = "can be restored" if verdict["is_restorable"] else f"cannot be restored: {verdict['obstacle']}"
    typer.echo(f"{verdict['job']}, version {verdict['version']}: {can}")


def dispose_kept(number: int, context: str | None, *, as_json: bool) -> None:
    """Let the service remove one."""
    with connect(context) as client:
        ended = ended_well(client, client.savepoints.dispose(number), otherwise=CONFLICT)
    path = (ended.result or {}).get("path", str(number))
    typer.echo(json_text({"disposed": path}) if as_json else f"disposed of {path}")
