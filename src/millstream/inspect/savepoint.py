"""Takes savepoints from outside a run.

Whoever runs the checkpoint is asked; where nobody does, its newest durable epoch is saved as a run would have exported it.
"""

from __future__ import annotations

from pathlib import Path

from millstream.api.running.control import Form, Request
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.savepoint import CopiedFile, Savepoint, existing_savepoint, safe_name
from millstream.errors import CheckpointRefused
from millstream.inspect.asking import answered_before, ask
from millstream.inspect.checkpoint import CheckpointView
from millstream.inspect.state.stored import EngineFiles
from millstream.jobmaster.past_runs import exported_state
from millstream.jobmaster.savepoint.native import keep_manifest
from millstream.jobmaster.savepoint.take import take_savepoint


def take_from_outside(view: CheckpointView, request: Request, seconds: float) -> str:
    """Take the savepoint of a request, whether the job runs or not; asked again, the answer is the same. Gives its directory."""
    if view.is_running or answered_before(view, request) is not None:
        return ask(view, request, seconds).path
    folder = Path(request.to) if request.to else view.root.resolve() / "savepoints"
    path = folder / f"savepoint-{safe_name(request.id)}"
    save_stopped(view, path, request.id, request.form)
    return str(path)


def save_stopped(view: CheckpointView, path: Path, identifier: str, form: Form) -> Savepoint:
    """Take a savepoint of the newest durable epoch.

    Refused where the last run broke off: its newest epoch may be durable and not yet published, and a job restored elsewhere
    would never publish it.
    """
    existing = existing_savepoint(path, identifier)
    if existing is not None:
        return existing
    manifest, head, lease = view.manifest(), view.head(), view.lease()
    if head is None:
        msg = "the head of the checkpoint is gone"
        raise CheckpointRefused(msg, code="CKPT-012", hint="someone removed it; see `millstream doctor CHECKPOINT`")
    if lease is None or not lease.is_settled:
        msg = "the last run of the checkpoint broke off, so its newest epoch may not be published yet"
        raise CheckpointRefused(
            msg, code="CKPT-018", found=f"epoch {manifest.epoch}", hint="run the job again, then suspend it"
        )
    files = EngineFiles(manifest=manifest, folder=view.folder(manifest.engine, manifest.lineage))
    return take_savepoint(
        path,
        identifier,
        manifest,
        key_groups=manifest.requirements["key_groups"],
        history=[*head.origin.history, (manifest.lineage, manifest.epoch)],
        files=exported_state(manifest, files.folder, path) if form == "canonical" else (),
        native=_copied(files, path) if form == "native" else (),
        sources=_sources(view, manifest),
        kind=form,
    )


def _copied(files: EngineFiles, root: Path) -> list[CopiedFile]:
    copied = files.engine.copy_state(files.folder, root, files.manifest.epoch)
    return [keep_manifest(root, files.manifest), *copied]


def _sources(view: CheckpointView, manifest: EpochManifest) -> dict[str, Path]:
    folder = view.folder("sources", manifest.lineage)
    return {uid: folder / uid for uid in manifest.sources}
