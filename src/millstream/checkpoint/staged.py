"""From a staged epoch to its manifest: whose epochs they are, what was staged, and the record of both."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.checkpoint.manifest import (
    EpochManifest,
    Kind,
    ParticipantRecord,
    SinkRecord,
    SourceRange,
    StateFileRecord,
)
from millstream.checkpoint.run_record import RunRecord
from millstream.model.ids import Epoch
from millstream.plan.fingerprint import Fingerprint


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose epochs these are."""

    job: str
    lineage: str
    token: int
    guarantee: str
    mode: str = ""
    run: RunRecord = RunRecord()
    fingerprint: Fingerprint
    parallelism: int
    depth: int
    engine: str
    requirements: dict[str, Any] = {}
    operators: dict[str, Any] = {}
    uids: dict[str, str] = {}
    history: list[tuple[str, int]] = []


class StagedEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch whose rows are all staged."""

    epoch: Epoch
    digest: str
    follows: str
    """Digest of the epoch before, as the plan of this one knows it."""
    kind: Kind
    plan: dict[str, Any]
    planner: dict[str, Any]
    messages: dict[str, list[Any]]
    """Per participant: the commit messages of its tasks, in task order; of a source its position."""
    counts: dict[str, dict[str, int]]
    sources: dict[str, SourceRange] = {}
    watermarks: dict[str, int] = {}
    sinks: dict[str, SinkRecord] = {}
    segments: list[StateFileRecord] = []


def manifest_of(
    identity: Identity, staged: StagedEpoch, participants: dict[str, ParticipantRecord], *, created_at: str
) -> EpochManifest:
    """The record of an epoch whose participants are prepared."""
    return EpochManifest(
        job=identity.job,
        lineage=identity.lineage,
        epoch=staged.epoch,
        token=identity.token,
        kind=staged.kind,
        guarantee=identity.guarantee,
        mode=identity.mode,
        run=identity.run,
        requirements=identity.requirements,
        fingerprint=identity.fingerprint.whole,
        fingerprint_steps=identity.fingerprint.steps,
        parallelism=identity.parallelism,
        depth=identity.depth,
        engine=identity.engine,
        digest=staged.digest,
        plan=staged.plan,
        planner=staged.planner,
        sources=staged.sources,
        watermarks=staged.watermarks,
        operators=identity.operators,
        uids=identity.uids,
        history=identity.history,
        participants=participants,
        sinks=staged.sinks,
        segments=staged.segments,
        counts=staged.counts,
        created_at=created_at,
    )
