"""What `millstream doctor CHECKPOINT` looks at: every part of a checkpoint, what is wrong with it, and the safe way out.

Nothing is changed here, no lease is taken, no sink is contacted and no engine is started.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from typing import Literal

from millstream.api.running.control import RequestBox
from millstream.checkpoint.head import HEAD, Head
from millstream.checkpoint.lease_record import LEASE, LeaseRecord
from millstream.checkpoint.manifest import EpochManifest
from millstream.errors import CheckpointRefused, InvalidStep
from millstream.inspect.checkpoint import CheckpointView, is_alive
from millstream.inspect.lost_head import AGAIN, RESTORE, way_to_rebuild
from millstream.local.state_files import load_state
from millstream.spark.files.log_files import read_logs
from millstream.spark.files.logs import LogProblem, compare_logs

Status = Literal["ok", "note", "problem"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One part of a checkpoint: what was found, and the way out when it keeps the job from going on."""

    part: str
    status: Status
    text: str
    code: str | None = None
    file: str | None = None
    way_out: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """All remarks, and what the next start would do."""

    remarks: list[Remark]
    verdict: str

    @property
    def problems(self) -> list[Remark]:
        """What keeps the job from going on."""
        return [remark for remark in self.remarks if remark.status == "problem"]


def examine(view: CheckpointView) -> Checkup:
    """Look at everything; damage in one part does not hide the others."""
    remarks = [_lease(view)]
    head, remark = _head(view)
    remarks.append(remark)
    manifest: EpochManifest | None = None
    if head is not None:
        remarks += _origin(head)
        manifest, remarked = _newest(view, head)
        remarks += [*remarked, *_others(view, head)]
    if manifest is not None:
        remarks += [*_engine(view, manifest), *_sources(view, manifest), *_sinks(manifest)]
    elif head is not None and head.epoch is None:
        remarks += _spark(view, head.lineage, None, None)
    remarks += _requests(view)
    return Checkup(remarks=remarks, verdict=_verdict(remarks, head, manifest))


def _refused(part: str, problem: CheckpointRefused, way_out: str) -> Remark:
    return Remark(part=part, status="problem", text=problem.message, code=problem.code, way_out=way_out)


def _lease(view: CheckpointView) -> Remark:
    try:
        record = view.lease()
    except CheckpointRefused as problem:
        way_out = (
            "`millstream doctor CHECKPOINT --repair` writes a free lease with a higher token: late owners stay refused"
        )
        return dataclasses.replace(_refused("lease", problem, way_out), file=LEASE)
    if record is None:
        return Remark(part="lease", status="note", text="nobody ever owned this checkpoint, or its lease is gone")
    return Remark(part="lease", status="ok", text=_owner(record))


def _owner(record: LeaseRecord) -> str:
    at = dt.datetime.fromtimestamp(record.renewed_at, dt.UTC).isoformat(timespec="seconds")
    who = f"process {record.process.pid} on {record.process.host}, token {record.token}"
    if is_alive(record):
        return f"held: {who}, renewed at {at}"
    if record.is_released:
        return f"free: released by {who} at {at}"
    if record.process.is_gone:
        return f"free: {who} is gone; the next start takes over at once"
    return f"silent: {who}, last renewed at {at}; the next start watches it for at most {record.term / 1000:g} s"


def _head(view: CheckpointView) -> tuple[Head | None, Remark]:
    try:
        head = view.head()
    except CheckpointRefused as problem:
        text = f"{problem.message}; it says which epoch is the newest durable one"
        way_out = AGAIN if problem.code == "CKPT-002" else way_to_rebuild(view)
        return None, Remark(part="head", status="problem", text=text, code=problem.code, file=HEAD, way_out=way_out)
    if head is not None:
        epoch = "no epoch is durable yet" if head.epoch is None else f"newest durable epoch {head.epoch}"
        return head, Remark(part="head", status="ok", text=f"job {head.job}, lineage {head.lineage}, {epoch}")
    if not view.store.names("manifests/"):
        return None, Remark(part="head", status="note", text="nothing was ever durable here")
    text = "the head is missing, but there are manifests: nothing says which of them is the newest durable one"
    return None, Remark(
        part="head", status="problem", text=text, code="CKPT-012", file=HEAD, way_out=way_to_rebuild(view)
    )


def _origin(head: Head) -> Iterator[Remark]:
    origin = head.origin
    before = ", ".join(f"{lineage} up to epoch {epoch}" for lineage, epoch in origin.history)
    if origin.begins_run:
        text = f"run {origin.run.number}, begun with {origin.run.carry} of the run before; earlier output: {before}"
    elif origin.savepoint:
        text = f"restored from savepoint {origin.savepoint}; earlier output: {before}"
    elif origin.ignored:
        text = f"started over with --ignore-state-once; the state of lineage {origin.ignored} was given up"
    else:
        text = "started afresh"
    yield Remark(part="origin", status="ok", text=text)


def _newest(view: CheckpointView, head: Head) -> tuple[EpochManifest | None, list[Remark]]:
    if head.epoch is None:
        return None, []
    try:
        manifest = view.read_manifest(head.manifest)
    except CheckpointRefused as problem:
        remark = _refused("manifest", problem, AGAIN)
        return None, [dataclasses.replace(remark, file=head.manifest)]
    text = (
        f"epoch {manifest.epoch} ({manifest.kind}), {manifest.guarantee}, on {manifest.engine}, parallelism "
        f"{manifest.parallelism}, at {manifest.created_at}"
    )
    return manifest, [Remark(part="manifest", status="ok", text=text, file=head.manifest)]


def _others(view: CheckpointView, head: Head) -> Iterator[Remark]:
    """Older manifests serve only to read older state; undecided ones are dropped by the next start."""
    try:
        names, undecided = view.retained(head), view.undecided(head)
    except CheckpointRefused as problem:
        yield _refused("manifests", problem, f"{problem.hint}; found {problem.found}")
        return
    for epoch, name in names.items():
        if epoch != head.epoch:
            try:
                view.read_manifest(name)
            except CheckpointRefused as problem:
                text = f"{problem.message}; the job does not need it, the state of epoch {epoch} cannot be read"
                yield Remark(part="older", status="note", text=text, code=problem.code, file=name)
    if names:
        yield Remark(part="retained", status="ok", text=f"epochs {min(names)} to {max(names)}")
    for name in undecided:
        text = "an epoch that was staged and never durable; the next start drops it and does it again"
        yield Remark(part="undecided", status="note", text=text, file=name)


def _engine(view: CheckpointView, manifest: EpochManifest) -> list[Remark]:
    if manifest.engine == "spark":
        return _spark(view, manifest.lineage, manifest.epoch, manifest.digest)
    try:
        state = load_state(view.folder("local", manifest.lineage), manifest)
    except CheckpointRefused as problem:
        return [_refused("state", problem, AGAIN)]
    pages = sum(len(task) for task in state.values())
    return [Remark(part="state", status="ok", text=f"the state of epoch {manifest.epoch} is whole: {pages} pages")]


def _spark(view: CheckpointView, lineage: str, epoch: int | None, digest: str | None) -> list[Remark]:
    folder = view.folder("spark", lineage)
    if epoch is None and not folder.exists():
        return []
    problems = compare_logs(read_logs(folder), epoch, digest)
    remarks = [_log_remark(problem) for problem in problems]
    if any(problem.severity == "error" for problem in problems):
        return remarks
    return [Remark(part="spark", status="ok", text="Spark's logs and state agree with the newest manifest"), *remarks]


def _log_remark(problem: LogProblem) -> Remark:
    is_error = problem.severity == "error"
    return Remark(
        part="spark",
        status="problem" if is_error else "note",
        text=problem.what,
        code=problem.code,
        file=str(problem.file),
        way_out=problem.way_out if is_error else None,
    )


def _sources(view: CheckpointView, manifest: EpochManifest) -> Iterator[Remark]:
    for uid in manifest.sources:
        folder = view.folder("sources", manifest.lineage) / uid
        if not folder.is_dir():
            text = f"the log of source {uid} is missing: the position in the manifest may mean other rows without it"
            yield Remark(part="source", status="problem", text=text, code="CKPT-022", file=str(folder), way_out=RESTORE)
            continue
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        yield Remark(part="source", status="ok", text=f"{uid}: a log of {len(files)} files, {size:,} bytes")


def _sinks(manifest: EpochManifest) -> Iterator[Remark]:
    for uid, sink in manifest.sinks.items():
        text = (
            f"{uid} ({sink.protocol}) was not contacted; the next start publishes epoch {manifest.epoch} if it is not"
        )
        yield Remark(part="sink", status="ok", text=text)


def _requests(view: CheckpointView) -> Iterator[Remark]:
    for identifier, request in RequestBox(view.store).waiting(known=set()):
        if isinstance(request, InvalidStep):
            text = f"{identifier}: {request.message} ({request.found}); whoever runs this checkpoint answers so"
            yield Remark(part="request", status="note", text=text, code=request.code)
            continue
        text = f"{request.action} (id {request.id}) waits for whoever runs this checkpoint"
        yield Remark(part="request", status="note", text=text)


def _verdict(remarks: list[Remark], head: Head | None, manifest: EpochManifest | None) -> str:
    problems = [remark for remark in remarks if remark.status == "problem"]
    if problems:
        first = problems[0]
        return f"refused because of the {first.part} ({first.code}): {first.text}"
    if head is None:
        return "starts afresh at epoch 0"
    if manifest is None:
        return f"starts at epoch 0 of lineage {head.lineage}"
    if manifest.kind == "terminal":
        return f"complete: epoch {manifest.epoch} was the last one, there is nothing left to run"
    return f"resumes at epoch {manifest.epoch + 1}"
