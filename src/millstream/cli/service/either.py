"""Arguments that are a checkpoint or a job of a service: a path is a checkpoint, a name a job."""

from __future__ import annotations

from pathlib import Path

import typer

from millstream.cli.service.contexts import connect
from millstream.cli.service.jobs import run_named
from millstream.cli.service.runs import done, ended_well
from millstream.cli.show import json_text

_FILES = (".py", ".yaml", ".yml", ".json")
_MODES = {"drain": "drain", "suspend": "suspend", "cancel": "cancel", "savepoint": "export_savepoint"}


def is_job(target: str) -> bool:
    """Whether an argument names a job: it looks like no path, and there is no folder of that name here."""
    return "/" not in target and target not in {".", ".."} and not Path(target).exists()


def is_submitted(target: str) -> bool:
    """Whether an argument that may be a job file names a job of the service."""
    return is_job(target) and ":" not in target and not target.endswith(_FILES)


def ask_service(
    action: str, target: str, context: str | None, *, to: str | None, native: bool, timeout: float, as_json: bool
) -> None:
    """Ask the newest run of a job for an end or a savepoint, and say what came of it."""
    with connect(context) as client:
        run = run_named(client, target)
        form = "native" if native else "canonical"
        operation = client.runs.stop(run.id, _MODES[action], to=to or "", form=form)  # type: ignore[arg-type]
        if not as_json:
            done(client, operation, wait=True, timeout=timeout)
            return
        result = ended_well(client, operation, timeout=timeout).result or {}
        place = result.get("path") or result.get("savepoint")
        typer.echo(json_text({"id": operation, "action": action, "run": run.id, "savepoint": place}))
