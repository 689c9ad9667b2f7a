"""`millstream dlq`: look at the dead letters of a job, replay them and remove them; a name is a job of the service."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from millstream.api.jobfile.target import load
from millstream.cli.failure import reported
from millstream.cli.options import Checkpoint, Debug, Manifests, Params, params_of, seconds_of
from millstream.cli.service import letters as of_service
from millstream.cli.service.either import is_submitted
from millstream.cli.service.letters import WHAT_NEXT
from millstream.cli.service.options import Context, Form, OutputForm
from millstream.cli.service.output import show_list, show_one
from millstream.cli.show import plain_row, show_rows
from millstream.inspect.checkpoint import CheckpointView, open_view
from millstream.inspect.letters.box import LetterBox, letter_box, letter_boxes
from millstream.inspect.letters.letter import Told
from millstream.inspect.letters.replaying import ReplayAnswer, ask_replay, could_replay
from millstream.inspect.letters.summary import chosen, summary

app = typer.Typer(help="Dead letters of a job: list, show, replay and remove them.", no_args_is_help=True)
StepArgument = Annotated[str, typer.Argument(metavar="STEP", help="A step of the job with dead letters.")]
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="A job file, module:attribute, or the name of a job of the service.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Ids = Annotated[list[str] | None, typer.Option("--id", help="A letter, by its id or how that begins; may be repeated.")]
ErrorText = Annotated[str, typer.Option("--error", metavar="TEXT", help="Only letters with this text in their error.")]


@contextlib.contextmanager
def _looking(checkpoint: str | None, manifests: str | None) -> Iterator[CheckpointView | None]:
    if checkpoint is None:
        yield None
        return
    with open_view(Path(checkpoint), manifests, read_only=True) as view:
        yield view


@app.command(name="ls")
def list_letters(
    job: JobArgument,
    *,
    checkpoint: Checkpoint = None,
    manifests: Manifests = None,
    param: Params = None,
    context: Context = None,
    output: OutputForm = "table",
    debug: Debug = False,
) -> None:
    """List the steps with dead letters: how many, the newest, kinds of errors, origins. --checkpoint tells what was replayed."""
    with reported(debug=debug), _looking(checkpoint, manifests) as view:
        if is_submitted(job):
            of_service.list_groups(job, context, output)
            return
        facts = [summary(box) for box in letter_boxes(load(job), view, params_of(param))]
        if output != "table":
            show_list(map(plain_row, facts), {}, output)
        else:
            names = list(facts[0]) if facts else ["step"]
            show_rows(names, [[_cell(value) for value in each.values()] for each in facts])


def _cell(value: Any) -> Any:
    return ", ".join(f"{count} {name}" for name, count in value.items()) or None if isinstance(value, dict) else value


@app.command()
def show(
    job: JobArgument,
    step: StepArgument,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, the newest.")] = 20,
    error: ErrorText = "",
    id: Ids = None,
    checkpoint: Checkpoint = None,
    manifests: Manifests = None,
    param: Params = None,
    context: Context = None,
    output: OutputForm = "table",
    debug: Debug = False,
) -> None:
    """Show letters of a step: id, state, origin, error and record."""
    with reported(debug=debug), _looking(checkpoint, manifests) as view:
        if is_submitted(job):
            of_service.show_letters(job, step, context, limit=limit, form=output, error=error, ids=id or ())
            return
        box = letter_box(letter_boxes(load(job), view, params_of(param)), step)
        found = [_facts(each) for each in chosen(box.told(), ids=id or (), error=error)[-limit:]]
        if output != "table":
            show_list(map(plain_row, found), {}, output)
        else:
            names = ["id", "state", "at", "attempt", "origin", "error", "record"]
            show_rows(names, [[each[name] for name in names] for each in found])


def _facts(told: Told) -> dict[str, Any]:
    letter = told.letter
    return {
        "id": letter.id,
        "step": letter.step,
        "state": told.state,
        "at": letter.at,
        "attempt": letter.attempt,
        "origin": letter.origin,
        "error": letter.error,
        "record": letter.record,
    }


@app.command()
def replay(
    job: JobArgument,
    step: StepArgument,
    *,
    checkpoint: Checkpoint = None,
    manifests: Manifests = None,
    error: ErrorText = "",
    id: Ids = None,
    dry_run: DryRun = False,
    param: Params = None,
    context: Context = None,
    output: OutputForm = "table",
    debug: Debug = False,
) -> None:
    """Give letters to their step again, each once: asked for again, nothing is done with it."""
    is_of_service = is_submitted(job)
    if not is_of_service and checkpoint is None:
        msg = "--checkpoint is needed: the request is left there"
        raise typer.BadParameter(msg)
    with reported(debug=debug), _looking(checkpoint, manifests) as view:
        if is_of_service:
            of_service.replay_letters(job, step, context, dry=dry_run, form=output, error=error, ids=id or [])
            return
        assert view is not None, "a job file comes with a checkpoint"
        box = letter_box(letter_boxes(load(job), view, params_of(param)), step)
        asked = (could_replay if dry_run else ask_replay)(
            box, [each.letter for each in chosen(box.told(), ids=id or (), error=error)]
        )
        _show_asked(asked, _state(view), output)


def _state(view: CheckpointView) -> str:
    if view.is_running:
        return "running"
    return "complete" if view.manifest().kind == "terminal" else "stopped"


def _show_asked(asked: ReplayAnswer, state: str, output: Form) -> None:
    if output != "table":
        refused = [{"id": name, "reason": reason} for name, reason in asked.refused]
        show_one({"replayed": asked.rows, "before": asked.before, "refused": refused, "job": state}, output, [])
        return
    typer.echo(f"{asked.rows} letters are to be replayed" + (f": {WHAT_NEXT[state]}" if asked.rows else ""))
    if asked.before:
        typer.echo(f"{asked.before} were asked for before")
    for name, reason in asked.refused:
        typer.echo(f"{name} cannot be replayed: {reason}")


@app.command()
def purge(
    job: JobArgument,
    step: StepArgument,
    *,
    checkpoint: Checkpoint = None,
    manifests: Manifests = None,
    replayed: Annotated[bool, typer.Option("--replayed", help="Only letters that were replayed.")] = False,
    older_than: Annotated[str | None, typer.Option("--older-than", help="Only letters older than, such as 7d.")] = None,
    error: ErrorText = "",
    id: Ids = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: DryRun = False,
    param: Params = None,
    context: Context = None,
    output: OutputForm = "table",
    debug: Debug = False,
) -> None:
    """Remove letters of a step from their sink; those that wait to be replayed stay."""
    if is_submitted(job):
        with reported(debug=debug):
            older = None if older_than is None else seconds_of(older_than, "--older-than")
            meant: dict[str, Any] = {"replayed": replayed or None, "error": error, "ids": id or [], "older_than": older}
            of_service.purge_letters(job, step, context, dry=dry_run, yes=yes, form=output, meant=meant)
        return
    if replayed and checkpoint is None:
        msg = "--replayed needs --checkpoint, which knows what was"
        raise typer.BadParameter(msg)
    with reported(debug=debug), _looking(checkpoint, manifests) as view:
        box = letter_box(letter_boxes(load(job), view, params_of(param)), step)
        before = None if older_than is None else _ago(older_than)
        found = chosen(box.told(), ids=id or (), error=error, before=before)
        going = [each for each in found if each.state == "replayed" or (not replayed and each.state == "new")]
        if dry_run:
            of_service.show_tried(len(going), output)
            return
        if not yes and going:
            typer.confirm(f"Remove {len(going)} letters of {box.node.id!r} from {box.sink.id!r}?", abort=True)
        _remove(box, going, output)


def _ago(text: str) -> dt.datetime:
    return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds_of(text, "--older-than"))


def _remove(box: LetterBox, going: list[Told], output: Form) -> None:
    ids = {each.letter.id for each in going}
    removed = box.remove(lambda letter: letter.id in ids)
    if output != "table":
        show_one({"removed": removed.rows, "kept": removed.kept, "why": removed.why}, output, [])
        return
    typer.echo(f"{removed.rows} letters are removed")
    if removed.kept:
        typer.echo(f"{removed.kept} are kept: {removed.why}")
