"""The runs of a checkpoint: which there were, what each was given, and how far it came."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.checkpoint.manifest import EpochManifest, manifest_prefix
from millstream.checkpoint.run_record import RunRecord
from millstream.errors import CheckpointRefused
from millstream.inspect.checkpoint import CheckpointView


def run_facts(view: CheckpointView) -> list[dict[str, Any]]:
    """One mapping for each run, oldest first: the last lineage of it says where it stands.

    Raises:
        CheckpointRefused: (CKPT-012) there is no head.
    """
    head = view.head()
    if head is None:
        msg = "the head of the checkpoint is gone"
        raise CheckpointRefused(msg, code="CKPT-012", hint="someone removed it; see `millstream doctor CHECKPOINT`")
    facts: dict[int, dict[str, Any]] = {}
    for lineage, epoch in head.origin.history:
        manifest = _last(view, lineage, epoch)
        if manifest is not None:
            facts[manifest.run.number] = _facts(manifest.run, lineage, manifest)
    newest = None if head.epoch is None else view.read_manifest(head.manifest)
    record = head.origin.run if newest is None else newest.run
    facts[record.number] = _facts(record, head.lineage, newest)
    return [facts[number] for number in sorted(facts)]


def _last(view: CheckpointView, lineage: str, epoch: int) -> EpochManifest | None:
    """The manifest of a lineage's last epoch; those of another checkpoint, or of long ago, are not here."""
    names = view.store.names(manifest_prefix(lineage))
    manifests = [view.read_manifest(name) for name in names[-1:]]
    return next((manifest for manifest in manifests if manifest.epoch == epoch), None)


def _facts(record: RunRecord, lineage: str, manifest: EpochManifest | None) -> dict[str, Any]:
    is_complete = manifest is not None and manifest.kind == "terminal"
    return {
        "run": record.number,
        "id": record.id,
        "state": "complete" if is_complete else "not complete",
        "carry": record.carry or None,
        "params": msgspec.to_builtins(record.params),
        "lineage": lineage,
        "epochs": 0 if manifest is None else manifest.epoch + 1,
        "at": None if manifest is None else manifest.created_at,
    }
