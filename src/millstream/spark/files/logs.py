"""Spark's own logs in a checkpoint: what they say, and whether they agree with the newest manifest.

1. The newest offset is N or N+1, the newest commit N-1 or N, where N is the newest manifest.  2. `offsets/N` holds the plan
that manifest N records.  3. What Spark reads when it resumes is whole: two offsets, a commit, the state it names.
Anything else is refused before Spark starts. Older entries are never read again; damage there is a warning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from millstream.errors import CheckpointRefused
from millstream.spark.files.log_files import SparkLogs, read_logs, state_chains
from millstream.spark.files.operator_files import OperatorRecord, operator_ids, operator_records, schema_damages
from millstream.spark.files.state_files import hidden_checksum

__all__ = ["LogProblem", "Repair", "SparkLogs", "compare_logs", "read_logs", "refusal", "refuse_damaged"]

Severity = Literal["error", "warning"]
RESTORE = "restore the checkpoint from a copy or a savepoint, or start over with --ignore-state-once"
_NAMED = 5
"""Further problems that a refusal spells out."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A way out that loses nothing: files are set aside, never removed, and what Spark can rebuild is rebuilt."""

    what: str
    set_aside: tuple[Path, ...] = ()
    new_metadata: bool = False
    relocate: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogProblem:
    """One disagreement or damage; an error keeps the job from starting, a warning does not."""

    code: str
    what: str
    file: Path
    severity: Severity = "error"
    repair: Repair | None = None
    """The safe way out, if there is one short of restoring."""

    @property
    def way_out(self) -> str:
        """What to do about it."""
        if self.repair is None:
            return RESTORE if self.severity == "error" else "nothing; the job does not need it"
        return f"`millstream doctor --repair` {self.repair.what}"


def compare_logs(logs: SparkLogs, newest_epoch: int | None, digest: str | None) -> list[LogProblem]:
    """Every problem between Spark's logs and the newest manifest, errors first.

    Args:
        logs: what `read_logs` found.
        newest_epoch: the epoch of the newest manifest; `None` if there is no manifest.
        digest: the digest of the plan in that manifest.
    """
    if newest_epoch is None:
        return _unstarted(logs)
    errors = [
        *_offset_problems(logs, newest_epoch, digest),
        *_commit_problems(logs, newest_epoch),
        *_orphan_problems(logs, newest_epoch),
        *_identity_problems(logs),
        *_operator_problems(logs),
    ]
    reported = {problem.file for problem in errors}
    return [*errors, *(problem for problem in _older(logs, newest_epoch) if problem.file not in reported)]


def refuse_damaged(folder: Path, newest_epoch: int | None, digest: str | None) -> None:
    """Raise `CheckpointRefused` if Spark must not be started on this folder; every problem is named."""
    problems = compare_logs(read_logs(folder), newest_epoch, digest)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise refusal(errors)


def refusal(errors: list[LogProblem]) -> CheckpointRefused:
    """One error that leads with the first problem and names the others."""
    first, others = errors[0], errors[1:]
    msg = f"Spark's part of the checkpoint cannot be resumed: {first.what}"
    if others:
        more = "".join(f"; {problem.what} ({problem.code})" for problem in others[:_NAMED])
        left = len(others) - _NAMED
        msg += f"; also{more[1:]}" + (f"; and {left} more" if left > 0 else "")
    # A repair helps only where every problem has one.
    stuck = next((problem for problem in errors if problem.repair is None), first)
    return CheckpointRefused(msg, code=first.code, found=str(first.file), hint=stuck.way_out)


def with_checksums(files: Iterable[Path]) -> tuple[Path, ...]:
    """Files together with the hidden checksum files beside them."""
    return tuple(part for file in files for part in (file, hidden_checksum(file)) if part.exists())


def _unstarted(logs: SparkLogs) -> list[LogProblem]:
    """No manifest: at most epoch 0 was begun, and nothing of it is durable."""
    newest = max([*logs.offsets, *logs.commits], default=0)
    if newest > 0 or logs.commits:
        what = f"it holds epoch {newest}, but there is no manifest: the manifests were lost or belong elsewhere"
        return [LogProblem(code="CKPT-050", what=what, file=logs.folder)]
    everything = [entry for entry in sorted(logs.folder.glob("*")) if not entry.name.startswith("damaged-")]
    fresh = Repair(
        what="sets the whole folder aside: no epoch of it is durable, the job begins again at its first row",
        set_aside=tuple(everything),
    )
    problems = [
        LogProblem(code="CKPT-051", what=f"offsets/{epoch} {entry.what}", file=entry.file, repair=fresh)
        for epoch, entry in logs.offsets.items()
        if entry.what is not None
    ]
    file = logs.folder / "metadata"
    # Spark writes its identity first; a folder without one and without epochs is as good as new.
    if logs.metadata is not None and (not logs.is_empty or with_checksums([file])):
        problems.append(LogProblem(code="CKPT-054", what=f"metadata {logs.metadata}", file=file, repair=fresh))
    # Spark takes an epoch 0 without an offset for its first run, and refuses to write where state lies already.
    if not logs.offsets and (operator_ids(logs.folder) or _orphan_problems(logs, -1)):
        what = "offsets/0 is missing, but epoch 0 left files behind"
        problems.append(LogProblem(code="CKPT-057", what=what, file=logs.folder / "offsets" / "0", repair=fresh))
    return problems


def _offset_problems(logs: SparkLogs, newest: int, digest: str | None) -> list[LogProblem]:
    ahead = max(logs.offsets, default=0)
    if ahead > newest + 1:
        what = f"it began epoch {ahead}, but the newest manifest is {newest}: manifests were lost or are an older copy"
        return [LogProblem(code="CKPT-050", what=what, file=logs.offsets[ahead].file)]
    problems = []
    for epoch in (newest, newest - 1) if newest else (newest,):
        entry = logs.offsets.get(epoch)
        file = logs.folder / "offsets" / str(epoch)
        if entry is None:
            code = "CKPT-050" if epoch == newest else "CKPT-057"
            what = f"offsets/{epoch} is missing, but manifest {newest} is durable: the log is behind, or has a gap"
            problems.append(LogProblem(code=code, what=what, file=file))
        elif entry.plan is None:
            problems.append(LogProblem(code="CKPT-051", what=f"offsets/{epoch} {entry.what}", file=file))
        elif epoch == newest and entry.plan.digest != digest:
            what = f"offsets/{epoch} holds another plan than manifest {epoch}: its rows would differ"
            problems.append(LogProblem(code="CKPT-053", what=what, file=file))
    return [*problems, *_begun_problems(logs, newest, digest)]


def _begun_problems(logs: SparkLogs, newest: int, digest: str | None) -> list[LogProblem]:
    begun = logs.offsets.get(newest + 1)
    if begun is None:
        return []
    what = begun.what
    if begun.plan is not None and begun.plan.follows not in ("", digest):
        what = f"does not follow the plan of manifest {newest}"
    if what is None:
        return []
    repair = Repair(what=f"sets offsets/{newest + 1} aside: {_NOTHING_DURABLE}", set_aside=with_checksums([begun.file]))
    return [LogProblem(code="CKPT-051", what=f"offsets/{newest + 1} {what}", file=begun.file, repair=repair)]


_NOTHING_DURABLE = (
    "its epoch has no manifest, nothing of it was published, and it is planned again from the last manifest"
)


def _commit_problems(logs: SparkLogs, newest: int) -> list[LogProblem]:
    """Spark resumes from the newest commit; the one before serves as well, because a durable epoch may be replayed."""
    ahead = max(logs.commits, default=0)
    if ahead > newest:
        what = (
            f"it committed epoch {ahead}, but the newest manifest is {newest}: manifests were lost or are an older copy"
        )
        return [LogProblem(code="CKPT-050", what=what, file=logs.commits[ahead].file)]
    now = _resume_problems(logs, newest)
    if not now:
        return []
    before = _resume_problems(logs, newest - 1) if newest else []
    begun = [entry.file for epoch, entry in logs.offsets.items() if epoch == newest + 1]
    if newest in logs.commits:
        aside = with_checksums([logs.commits[newest].file, *begun])
        repair = Repair(what=f"sets commits/{newest} aside: {_REPLAYED}", set_aside=aside)
        return now if before else [dataclasses.replace(problem, repair=repair) for problem in now]
    if before or not begun:
        return before
    what = f"epoch {newest + 1} was begun, but commits/{newest} is missing"
    repair = Repair(what=f"sets offsets/{newest + 1} aside: {_NOTHING_DURABLE}", set_aside=with_checksums(begun))
    return [LogProblem(code="CKPT-057", what=what, file=logs.folder / "commits" / str(newest), repair=repair)]


_REPLAYED = "the epoch is replayed from the state before it, and its manifest keeps it from being published twice"


def _resume_problems(logs: SparkLogs, epoch: int) -> list[LogProblem]:
    """Why Spark could not resume from the commit of an epoch."""
    commit = logs.commits.get(epoch)
    file = logs.folder / "commits" / str(epoch)
    if commit is None or commit.what is not None:
        what = "is missing" if commit is None else commit.what
        return [LogProblem(code="CKPT-052", what=f"commits/{epoch} {what}", file=file)]
    unnamed = [operator for operator in operator_ids(logs.folder) if operator not in commit.states]
    if unnamed:
        what = f"commits/{epoch} names no state of operator {unnamed[0]}"
        return [LogProblem(code="CKPT-052", what=what, file=file)]
    return [
        LogProblem(code="CKPT-056", what=f"{damage.file.relative_to(logs.folder)} {damage.what}", file=damage.file)
        for chain in state_chains(logs, epoch)
        for damage in chain.damages
    ]


def _orphan_problems(logs: SparkLogs, newest: int) -> list[LogProblem]:
    """Where a file was removed but not its hidden checksum, Spark cannot write the file again and fails in every run."""
    problems = []
    for log, entries, first in (("offsets", logs.offsets, newest + 1), ("commits", logs.commits, newest)):
        for file in (logs.folder / log).glob(".*.crc"):
            number = file.name[1:-4]
            if number.isdigit() and int(number) >= first and int(number) not in entries:
                what = f"{log}/{number} is missing, but its checksum {file.name} is there"
                repair = Repair(what="sets the checksum aside: it belongs to no file", set_aside=(file,))
                problems.append(LogProblem(code="CKPT-057", what=what, file=file, repair=repair))
    return problems


def _identity_problems(logs: SparkLogs) -> list[LogProblem]:
    if logs.metadata is None or logs.is_empty:
        return []
    file = logs.folder / "metadata"
    repair = Repair(
        what="writes a new query id: epochs are told apart by lineage, nothing depends on Spark's id",
        set_aside=with_checksums([file]),
        new_metadata=True,
    )
    return [LogProblem(code="CKPT-054", what=f"metadata {logs.metadata}", file=file, repair=repair)]


def _operator_problems(logs: SparkLogs) -> list[LogProblem]:
    """What Spark knows about its operators must be there, and must be about this folder."""
    partitions = {operator: len(uids) for commit in logs.commits.values() for operator, uids in commit.states.items()}
    problems = []
    for operator in sorted(partitions):
        for record in operator_records(logs.folder, operator):
            problems += _record_problems(logs.folder, record, partitions[operator])
    return problems


def _record_problems(folder: Path, record: OperatorRecord, partitions: int) -> list[LogProblem]:
    name = record.file.relative_to(folder)
    if record.what is not None:
        return [LogProblem(code="CKPT-058", what=f"{name} {record.what}", file=record.file)]
    problems = [
        LogProblem(code="CKPT-058", what=f"{damage.file.relative_to(folder)} {damage.what}", file=damage.file)
        for damage in schema_damages(record)
    ]
    if record.partitions != partitions:
        what = f"{name} speaks of {record.partitions} partitions, the commits of {partitions}"
        problems.append(LogProblem(code="CKPT-058", what=what, file=record.file))
    if record.is_elsewhere:
        what = f"{name} names files of another folder: the checkpoint was copied or moved"
        repair = Repair(what="rewrites the paths", relocate=True)
        problems.append(LogProblem(code="CKPT-058", what=what, file=record.file, repair=repair))
    return problems


def _older(logs: SparkLogs, newest: int) -> list[LogProblem]:
    """Damage in entries that Spark will not read again: older state cannot be inspected, nothing more."""
    entries: list[tuple[str, int, str | None, Path]] = [
        *(("offsets", epoch, entry.what, entry.file) for epoch, entry in logs.offsets.items() if epoch < newest - 1),
        *(("commits", epoch, entry.what, entry.file) for epoch, entry in logs.commits.items() if epoch < newest),
    ]
    return [
        LogProblem(code="CKPT-051", what=f"{log}/{epoch} {what}", file=file, severity="warning")
        for log, epoch, what, file in entries
        if what is not None
    ]
