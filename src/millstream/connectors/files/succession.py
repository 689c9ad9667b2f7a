"""A new lineage takes a directory over: earlier ones are closed, and what they published too much is settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from millstream.checkpoint.failpoint import failpoint
from millstream.connectors.files.fences import close_lineages, read_fences
from millstream.connectors.files.lists import FileList, PublishedLists, tag_of, withdraw_lists
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
    if newer == "refuse":
        _refuse(context, beyond)
    # Step 2. Close the others
    lineages = {each.lineage for each in others} | last.keys() | _fenced_lineages(root, context)
    lineages.discard(context.lineage)
    close_lineages(root, [(context.job, lineage, context.step) for lineage in lineages])
    failpoint("files_closed")
    # Step 3. Withdraw the lists to be removed
    if newer == "truncate":
        withdraw_lists(beyond)
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
