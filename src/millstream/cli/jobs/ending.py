"""`millstream drain`, `suspend` and `cancel`: end a job that runs in another process."""

from __future__ import annotations

import json
from typing import Any

import typer

from millstream.api.running.control import Request
from millstream.cli.failure import reported
from millstream.cli.options import Debug, EitherArgument, Id, Json, Manifests, Native, Timeout, To, seconds_of
from millstream.cli.service.either import ask_service, is_job
from millstream.cli.service.options import Context
from millstream.inspect.asking import ask, request_for
from millstream.inspect.checkpoint import open_view

_TEXTS = {
    "drain": "drained: everything that was read is published, the job is complete",
    "suspend": "suspended; the job resumes with the command it was started by, or elsewhere with --from-savepoint",
    "cancel": "cancelled; the job resumes with the command it was started by",
}


def drain(
    checkpoint: EitherArgument,
    *,
    manifests: Manifests = None,
    id: Id = None,
    timeout: Timeout = "10m",
    context: Context = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let a running job read no more, close its windows, publish and end. It is complete then."""
    with reported(debug=debug):
        _end(checkpoint, manifests, request_for("drain", id=id), timeout, context, as_json=as_json)


def suspend(
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
    """Take a savepoint of a running job and end it; it can be resumed, also elsewhere and at another parallelism."""
    with reported(debug=debug):
        request = request_for("suspend", to=to, id=id, native=native)
        _end(checkpoint, manifests, request, timeout, context, as_json=as_json)


def cancel(
    checkpoint: EitherArgument,
    *,
    manifests: Manifests = None,
    id: Id = None,
    timeout: Timeout = "10m",
    context: Context = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """End a running job now. What was published stays; the job can be resumed."""
    with reported(debug=debug):
        _end(checkpoint, manifests, request_for("cancel", id=id), timeout, context, as_json=as_json)


def _end(
    checkpoint: str, manifests: str | None, request: Request, timeout: str, context: str | None, *, as_json: bool
) -> None:
    seconds = seconds_of(timeout, "--timeout")
    if is_job(checkpoint):
        options: dict[str, Any] = {"to": request.to, "native": request.form == "native", "as_json": as_json}
        ask_service(request.action, checkpoint, context, timeout=seconds, **options)
        return
    with open_view(checkpoint, manifests) as view:
        answer = ask(view, request, seconds)
    if as_json:
        typer.echo(json.dumps({"id": answer.id, "action": request.action, "savepoint": answer.path or None}))
        return
    if answer.path:
        typer.echo(f"savepoint {answer.path}")
    typer.echo(_TEXTS[request.action])
