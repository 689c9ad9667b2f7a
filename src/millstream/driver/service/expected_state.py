"""A job that published before finds its checkpoint: without it everything would be published again, without a word."""

from __future__ import annotations

from pathlib import Path

from millstream.checkpoint.aside import put_back_newest
from millstream.checkpoint.head import refuse_headless
from millstream.checkpoint.stores.open import open_for_reading
from millstream.contract.driver_protocol import RunSpec
from millstream.errors import CheckpointRefused
from millstream.inspect.checkpoint import CheckpointView, has_manifests, open_view

_NOT_THERE = "CKPT-016"


def refuse_lost(spec: RunSpec) -> None:
    """Refuse to begin afresh where epochs of earlier runs are known; what was set aside and not removed is put back first.

    Raises:
        CheckpointRefused: (CKPT-067) there is no checkpoint.
    """
    if spec.expects_state and not _is_there(spec) and not put_back_newest(Path(spec.checkpoint)):
        msg = "the job has published before, and its checkpoint is gone: it would publish everything again"
        hint = "restore a copy of it, start from a savepoint, or give its state up: --ignore-state-once"
        raise CheckpointRefused(msg, code="CKPT-067", found=f"nothing at {spec.checkpoint}", hint=hint)


def _is_there(spec: RunSpec) -> bool:
    if spec.manifests is not None and not has_manifests(spec.manifests):
        return False
    try:
        with _opened(spec) as view:
            if view.head() is not None:
                return True
            refuse_headless(view.store)
            return False
    except CheckpointRefused as problem:
        if problem.code == _NOT_THERE:
            return False
        raise


def _opened(spec: RunSpec) -> CheckpointView:
    """Manifests that lie elsewhere are the checkpoint, whether there are files beside them or not."""
    if spec.manifests is None:
        return open_view(spec.checkpoint, read_only=True)
    return CheckpointView(root=Path(spec.checkpoint), store=open_for_reading(spec.manifests))
