"""A new lineage takes a directory over: earlier ones are closed, and what they published too much is settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from millstream.checkpoint.failpoint import failpoint
from millstream.connectors.files.fences import close_lineages, read_fences
from millstream.connectors.files.lists import FileList, tag_of, withdraw_lists
from millstream.connectors.files.published import PublishedLists, every_list
from millstream.connectors.files.results import shown_result
from millstream.connectors.files.staging import NO_EPOCH, sweep
from millstream.connectors.files.store import LISTS
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused
from millstream.model.connector import NewerOutput


def take_over(root: Path, context: SinkContext, last: Mapping[str, int], newer: NewerOutput) -> None:
    """Make a lineage the only one of its job and step in a directory; `last` gives the epochs at which others end.

    1. Look at what others have published beyond; a refusal leaves everything as it was.  2. Close the others.
    3. Withdraw the lists to be removed.  4. Delete data files beyond that no list names.
    A crash in between is finished by doing it again. Only for a caller that holds the directory.
    """
    # Step 1. Look at what others have published beyond
    others = [each for each in PublishedLists(root).new() if _is_other(each, context)]
    beyond = [each for each in others if each.epoch > last.get(each.lineage, NO_EPOCH)]
    shown = shown_result(root, job=context.job, step=context.step)
    whole = set() if shown is None else set(shown.known)
    if newer == "refuse":
        _refuse(context, beyond)
    if newer == "truncate":
        _refuse_cut(context, [each for each in beyond if each.lineage in whole])
    # Step 2. Close the others
    lineages = {each.lineage for each in others} | last.keys() | _fenced_lineages(root, context)
    lineages.discard(context.lineage)
    close_lineages(root, [(context.job, lineage, context.step) for lineage in lineages])
    failpoint("files_closed")
    # Step 3. Withdraw the lists to be removed
    if newer == "truncate":
        withdraw_lists(beyond)
    withdraw_lists([each for each in _held_back(root, context, last) if each.lineage not in whole])
    failpoint("files_withdrawn")
    # Step 4. Delete data files beyond that no list names
    tags = {each: tag_of(job=context.job, lineage=each, step=context.step) for each in lineages}
    sweep(root, {tag: last.get(lineage, NO_EPOCH) for lineage, tag in tags.items()})


def check_beyond(root: Path, context: SinkContext, last: Mapping[str, int]) -> None:
    """Refuse when other lineages have published rows beyond the epochs at which they end."""
    others = [each for each in PublishedLists(root).new() if _is_other(each, context)]
    _refuse(context, [each for each in others if each.epoch > last.get(each.lineage, NO_EPOCH)])


def _is_other(listing: FileList, context: SinkContext) -> bool:
    is_same_sink = (listing.job, listing.step) == (context.job, context.step)
    return is_same_sink and listing.lineage != context.lineage


def _fenced_lineages(root: Path, context: SinkContext) -> set[str]:
    owners = read_fences(root / LISTS)
    return {lineage for job, lineage, step in owners if (job, step) == (context.job, context.step)}


def _held_back(root: Path, context: SinkContext, last: Mapping[str, int]) -> list[FileList]:
    """Lists of others beyond the point this lineage starts from that nobody has seen."""
    seen = {each.path for each in PublishedLists(root).new()}
    others = [each for each in every_list(root) if _is_other(each, context) and each.path not in seen]
    return [each for each in others if each.epoch > last.get(each.lineage, NO_EPOCH)]


def _refuse_cut(context: SinkContext, beyond: Sequence[FileList]) -> None:
    if beyond:
        msg = "the sink shows the whole result of a run, of which a part cannot be removed"
        hint = "pass --on-newer-output keep, or run the job anew with write='replace'"
        found = f"{len(beyond)} epochs with {sum(each.rows for each in beyond)} rows"
        raise CheckpointRefused(msg, code="SINK-004", step=context.step, found=found, hint=hint)


def _refuse(context: SinkContext, beyond: Sequence[FileList]) -> None:
    beyond = [each for each in beyond if each.files]
    if not beyond:
        return
    msg = "the sink holds output beyond the point that this lineage starts from"
    raise CheckpointRefused(
        msg,
        code="SINK-003",
        step=context.step,
        found=f"{len(beyond)} epochs with {sum(each.rows for each in beyond)} rows",
        known="refuse, keep, truncate",
        hint="pass --on-newer-output keep to leave them in place, or truncate to remove them",
    )
