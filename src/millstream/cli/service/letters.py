"""Dead letters of jobs of a service, for `millstream dlq`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from millstream.cli.service.contexts import connect
from millstream.cli.service.options import Form
from millstream.cli.service.output import show_list, show_one
from millstream.errors import InvalidStep

if TYPE_CHECKING:
    from millstream.client import Client
    from millstream.client.letters import TriedLetters

_GROUPS = {
    "STEP": "step", "REASON": "reason", "LETTERS": "count", "NEW": "new", "WAITING": "waiting", "REPLAYED": "replayed",
    "LAST": "last", "SINK": "sink",
}  # fmt: skip
_LETTERS = {
    "ID": "id", "STATE": "state", "AT": "at", "ATTEMPT": "attempt", "ORIGIN": "origin", "ERROR": "error", "RECORD": "record",
}  # fmt: skip
WHAT_NEXT = {
    "running": "the run takes them with its next epoch",
    "stopped": "the job takes them when it is started again",
    "complete": "the job is complete: its next run takes them, with --carry state or --carry position",
}


def list_groups(job: str, context: str | None, form: Form) -> None:
    """Steps and reasons."""
    with connect(context) as client:
        told = client.dead_letters.groups(job=job)
        show_list(told.groups, _GROUPS, form)
        if form == "table":
            for each in told.unreadable:
                typer.echo(f"{each['step']}: [{each['code']}] {each['message']}", err=True)


def show_letters(job: str, step: str, context: str | None, *, limit: int, form: Form, **meant: Any) -> None:
    """The newest letters of a step, oldest first, as they are shown of a checkpoint."""
    with connect(context) as client:
        found = list(itertools.islice(client.dead_letters.read(job, step=step, **meant), limit))
        show_list(found[::-1], _LETTERS, form)


def replay_letters(job: str, step: str, context: str | None, *, dry: bool, form: Form, **meant: Any) -> None:
    """Try it, or ask for it and wait."""
    with connect(context) as client:
        if dry:
            _show_replay(client.dead_letters.try_replay(job=job, step=step, **meant), form)
            return
        told = _result(client, client.dead_letters.replay(job=job, step=step, **meant))
        _show_replay(told, form)


def purge_letters(
    job: str, step: str, context: str | None, *, dry: bool, yes: bool, form: Form, meant: Mapping[str, Any]
) -> None:
    """Ask first, then remove them and wait."""
    with connect(context) as client:
        tried = client.dead_letters.try_purge(job=job, step=step, **meant)
        if dry:
            show_tried(tried.removed, form)
            return
        if not yes and tried.removed:
            typer.confirm(f"Remove {tried.removed} letters of {step!r} of job {job!r}?", abort=True)
        told = _result(client, client.dead_letters.purge(job=job, step=step, **meant))
    lines = [("removed", told["removed"]), ("kept", told["kept"]), ("why", told["why"])]
    show_one({"removed": told["removed"], "kept": told["kept"], "why": told["why"]}, form, lines)


def show_tried(letters: int, form: Form) -> None:
    """How many would go."""
    if form == "table":
        typer.echo(f"{letters} letters would be removed")
    else:
        show_one({"would_remove": letters}, form, [])


def _result(client: Client, operation: str) -> dict[str, Any]:
    ended = client.wait(operation)
    if ended.status == "failed":
        error = ended.error or {}
        fields = {name: error.get(name) for name in ("code", "step", "found", "known", "hint")}
        raise InvalidStep(error.get("message") or "it could not be done", **fields)
    return ended.result or {}


def _show_replay(told: TriedLetters | dict[str, Any], form: Form) -> None:
    facts: dict[str, Any] = msgspec.to_builtins(told)
    whole = {name: facts[name] for name in ("replayed", "before", "refused", "refusals")} | {"job": facts["state"]}
    if form != "table":
        show_one(whole, form, [])
        return
    count, state = facts["replayed"], facts["state"]
    typer.echo(f"{count} letters are to be replayed" + (f": {WHAT_NEXT[state]}" if count else ""))
    if facts["before"]:
        typer.echo(f"{facts['before']} were asked for before")
    for each in facts["refusals"]:
        typer.echo(f"{each['id']} cannot be replayed: {each['reason']}")
