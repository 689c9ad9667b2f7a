"""Repairs of a checkpoint that lose nothing. What is replaced is kept beside it; whatever is not certain is left alone."""

from __future__ import annotations

import dataclasses
import time

from millstream.checkpoint.head import HEAD, Head, Origin, encode_head
from millstream.checkpoint.lease import acquire
from millstream.checkpoint.lease_record import LEASE, LeaseRecord, encode_lease
from millstream.checkpoint.manifest import manifest_name, token_of
from millstream.checkpoint.owner import this_process
from millstream.checkpoint.stores.base import ManifestStore
from millstream.errors import CheckpointRefused
from millstream.inspect.checkpoint import CheckpointView
from millstream.inspect.checkup import Checkup, examine
from millstream.inspect.lost_head import only_newest
from millstream.spark.files.log_repair import repair as repair_logs

_TERM = 15_000
_TOKEN_GAP = 1_000
"""Owners that wrote no manifest have tokens that only the lost lease knew."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """A checkpoint as it is now, and the repairs that were done before."""

    checkup: Checkup
    done: list[str]


def examine_and_mend(view: CheckpointView, *, repair: bool) -> Treatment:
    """Look at everything; with `repair` do the safe repairs, and look again."""
    checkup = examine(view)
    done = mend(view, checkup) if repair and checkup.problems else []
    return Treatment(checkup=examine(view) if done else checkup, done=done)


def mend(view: CheckpointView, checkup: Checkup) -> list[str]:
    """Do the safe repairs of what was remarked, as the owner of the checkpoint; says what was done.

    Raises:
        CheckpointRefused: someone runs the checkpoint, or there is no safe repair.
    """
    parts = {remark.part for remark in checkup.problems}
    done = [_mend_lease(view)] if "lease" in parts else []
    lease = acquire(view.store, term=_TERM)
    try:
        if "head" in parts:
            done.append(_mend_head(view))
        head = view.head()
        if "spark" in parts and head is not None:
            done += _mend_spark(view, head)
    finally:
        lease.release()
    return done


def _mend_lease(view: CheckpointView) -> str:
    stored = view.store.read(LEASE)
    tokens = [token_of(name) for name in view.store.names("manifests/")]
    record = LeaseRecord(
        token=max(tokens, default=0) + _TOKEN_GAP,
        owner="repair",
        process=this_process(),
        term=_TERM,
        renewed_at=time.time(),
        is_released=True,
    )
    _replace(view.store, LEASE, stored, encode_lease(record))
    return f"lease: a free one with token {record.token} took the place of the damaged one"


def _mend_head(view: CheckpointView) -> str:
    newest = only_newest(view)
    head = Head(
        job=newest.job,
        lineage=newest.lineage,
        token=newest.token,
        epoch=newest.epoch,
        manifest=manifest_name(newest.lineage, newest.epoch, newest.token),
        origin=Origin(history=newest.history, run=newest.run),
    )
    _replace(view.store, HEAD, view.store.read(HEAD), encode_head(head))
    return f"head: rebuilt from manifest {newest.epoch}, the newest of the only lineage"


def _mend_spark(view: CheckpointView, head: Head) -> list[str]:
    folder = view.folder("spark", head.lineage)
    manifest = None if head.epoch is None else view.manifest()
    epoch, digest = (None, None) if manifest is None else (manifest.epoch, manifest.digest)
    return [f"spark: {text}" for text in repair_logs(folder, epoch, digest)]


def _replace(store: ManifestStore, name: str, stored: bytes | None, content: bytes) -> None:
    if stored is not None:
        store.create(f"damaged/{time.time_ns()}-{name}", stored)
    if not store.swap(name, stored, content):
        msg = f"{name} changed while it was repaired"
        raise CheckpointRefused(msg, code="CKPT-024", hint="someone else repairs or runs this checkpoint; look again")
