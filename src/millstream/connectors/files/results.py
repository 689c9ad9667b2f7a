"""The result that readers see of a sink that replaces: a small file names the lineages that count, and writing it is the swap.

Epochs of such a run are published to lists that nobody looks at. At the end of the run the file is replaced in one step: from
then on readers see the lists of this run, and none of the runs before. What they saw until then stays for one more run, for
readers that are in the middle of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.names import stored_part
from millstream.checkpoint.stores.local import sync_directory, write_synced
from millstream.connectors.files.current import check_link, gather_files, point_to_result
from millstream.connectors.files.fences import close_lineages
from millstream.connectors.files.lists import (
    FileList,
    checksum_of,
    list_folder,
    list_folders,
    list_name,
    read_list,
    tag_of,
)
from millstream.connectors.files.store import LISTS, RUNS
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused, Fenced

_VERSION = 1
_ENDING = ".result"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShownResult:
    """What readers see of one sink."""

    job: str
    step: str
    lineages: tuple[tuple[str, int], ...]
    """The lineages of the run in their order, each with its last epoch that counts."""
    before: tuple[str, ...] = ()
    """Lineages that readers saw until then; they are kept for one more run."""
    dropped: tuple[str, ...] = ()
    """Lineages from before that, whose files go."""

    def __post_init__(self) -> None:
        for lineage in self.known:
            stored_part(lineage, of="a lineage")

    @property
    def known(self) -> list[str]:
        """All lineages it decides about."""
        return [*(lineage for lineage, _ in self.lineages), *self.before, *self.dropped]

    def to_json(self) -> dict[str, Any]:
        """The content of its file."""
        content = {"version": _VERSION, **dataclasses.asdict(self)}
        return {**content, "checksum": checksum_of(json.loads(json.dumps(content)))}


def shown_results(root: Path) -> list[ShownResult]:
    """The results that are shown in a directory, one of each sink that replaces."""
    return [_read(path) for path in sorted((root / LISTS).glob(f"*{_ENDING}"))]


def shown_result(root: Path, *, job: str, step: str) -> ShownResult | None:
    """The result of one sink that is shown, if one ever was."""
    path = _path(root, job, step)
    return _read(path) if path.exists() else None


def _path(root: Path, job: str, step: str) -> Path:
    return root / LISTS / f"{step}-{hashlib.sha256(f'{job}/{step}'.encode()).hexdigest()[:10]}{_ENDING}"


def _read(path: Path) -> ShownResult:
    try:
        data = json.loads(path.read_bytes())
        is_intact = data["version"] == _VERSION and data["checksum"] == checksum_of(data)
        found = _result_of(data) if is_intact else None
    except (ValueError, KeyError, TypeError, AttributeError):
        found = None
    if found is None:
        msg = f"{str(path)!r}, which says which result counts, cannot be read"
        raise CheckpointRefused(
            msg, code="FILES-013", hint="restore the file, or run the job again with --carry nothing"
        )
    return found


def _result_of(data: Mapping[str, Any]) -> ShownResult:
    return ShownResult(
        job=data["job"],
        step=data["step"],
        lineages=tuple((lineage, int(last)) for lineage, last in data["lineages"]),
        before=tuple(data["before"]),
        dropped=tuple(data["dropped"]),
    )


def check_alone(root: Path, context: SinkContext) -> None:
    """One sink of a directory may replace: readers would take the results of two for one."""
    check_link(root, context)
    for other in shown_results(root):
        if (other.job, other.step) != (context.job, context.step):
            msg = "another sink shows its result in this directory already"
            raise CheckpointRefused(
                msg,
                code="FILES-036",
                step=context.step,
                found=f"sink {other.step!r} of job {other.job!r}",
                hint="give each sink with write='replace' a directory of its own, or empty this one",
            )


def show_result(root: Path, context: SinkContext, epoch: int, published: Iterable[str]) -> None:
    """Put the result of a run in the place of what readers saw; only for a caller that holds the directory.

    1. Check that nobody has replaced it already, and that its lists are there.  2. Close the lineages that it replaces.
    3. Write which lineages count: the swap, followed by that of the link for other readers.  4. Delete what was replaced the
    time before. Again after a crash, it goes on where it was.

    Args:
        root: the directory.
        context: whose result it is.
        epoch: the last one of the run.
        published: lineages of the sink whose lists readers see beside its result.
    """
    old = shown_result(root, job=context.job, step=context.step)
    lineages = (*context.same_run, (context.lineage, epoch))
    if old is None or old.lineages != lineages:
        # Step 1. Check that nobody has replaced it already, and that its lists are there
        check_alone(root, context)
        if old is not None and context.lineage in (*old.before, *old.dropped):
            msg = "a later run has replaced the result of this one"
            raise Fenced(msg, step=context.step, found=f"lineage {context.lineage}", hint="let the later run be")
        lists = check_lists(root, context, lineages)
        gather_files(root, context, lists)
        old = _following(root, old, context, lineages, published)
        # Step 2. Close the lineages that it replaces: what they would still publish, nobody would see
        close_lineages(root, [(context.job, lineage, context.step) for lineage in old.before])
        # Step 3. Write which lineages count
        _write(root, old)
        failpoint("files_shown")
    point_to_result(root, context)
    # Step 4. Delete what was replaced the time before
    for lineage in old.dropped:
        _delete(root, job=context.job, lineage=lineage, step=context.step)


def check_run(root: Path, context: SinkContext, *, replaces: bool) -> None:
    """Refuse to go on with a run whose first part is gone, or was held back by a sink that showed whole results then."""
    if replaces:
        check_lists(root, context, context.same_run)
        return
    shown = shown_result(root, job=context.job, step=context.step)
    for lineage in (*(each for each, _ in context.same_run), context.lineage):
        folder = list_folder(root, job=context.job, lineage=lineage, step=context.step, is_held_back=True)
        is_shown = shown is not None and lineage in shown.known
        if folder.is_dir() and not is_shown:
            raise incomplete(context, lineage, "lists of a run that was to replace")


def check_lists(root: Path, context: SinkContext, lineages: tuple[tuple[str, int], ...]) -> list[FileList]:
    """The lists of a run; one of which lists are gone cannot be shown as a whole any more, and is refused."""
    found = []
    for lineage, last in lineages:
        folders = list_folders(root, job=context.job, lineage=lineage, step=context.step)
        for epoch in range(last + 1):
            places = [folder / list_name(epoch) for folder in folders]
            path = next((place for place in places if place.exists()), None)
            if path is None:
                raise incomplete(context, lineage, f"nothing of its epoch {epoch}")
            found.append(read_list(path))
    return found


def incomplete(context: SinkContext, lineage: str, found: str) -> CheckpointRefused:
    """The error of a run whose first part is not there, or was written in another way."""
    msg = f"the sink does not hold what lineage {lineage!r} wrote of this run, so its result cannot be shown as a whole"
    hint = "run the job anew: --carry nothing, or --ignore-state-once; or write as the run did when it began"
    return CheckpointRefused(msg, code="SINK-006", step=context.step, found=found, hint=hint)


def _following(
    root: Path,
    old: ShownResult | None,
    context: SinkContext,
    lineages: tuple[tuple[str, int], ...],
    published: Iterable[str],
) -> ShownResult:
    """The result that follows on another one: what was seen until now stays, what was kept beside it goes."""
    job, step = context.job, context.step
    old = old or ShownResult(job=job, step=step, lineages=())
    mine = {lineage for lineage, _ in lineages}
    seen = [*published, *(lineage for lineage, _ in old.lineages)]
    before = tuple(dict.fromkeys(lineage for lineage in seen if lineage not in mine))
    left = [lineage for lineage in old.dropped if _is_there(root, job=job, lineage=lineage, step=step)]
    gone = [lineage for lineage in dict.fromkeys((*old.before, *left)) if lineage not in {*mine, *before}]
    return ShownResult(job=job, step=step, lineages=lineages, before=before, dropped=tuple(gone))


def _is_there(root: Path, *, job: str, lineage: str, step: str) -> bool:
    return any(folder.exists() for folder in list_folders(root, job=job, lineage=lineage, step=step))


def _write(root: Path, result: ShownResult) -> None:
    path = _path(root, result.job, result.step)
    # One name is enough for all: whoever writes it holds the lock, and what a crash leaves is overwritten.
    temporary = path.with_suffix(".next")  # an ending that readers do not look for: half of it may be written
    write_synced(temporary, json.dumps(result.to_json()).encode())
    temporary.replace(path)
    sync_directory(path.parent)


def _delete(root: Path, *, job: str, lineage: str, step: str) -> None:
    """Delete data files first and their lists behind them, so that one who is interrupted finds what is left to do."""
    tag = tag_of(job=job, lineage=lineage, step=step)
    shutil.rmtree(root / RUNS / tag, ignore_errors=True)
    for folder in (list_folder(root, job=job, lineage=lineage, step=step, is_held_back=held) for held in (False, True)):
        for path in folder.glob("[0-9]*.json") if folder.is_dir() else ():
            for file in read_list(path).files:
                (root / file["path"]).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
