"""Drives one epoch from staged output to published output, and finishes what a crash left behind.

1. Adopt a durable manifest, if there is one.  2. Prepare every sink.  3. Make the manifest durable.  4. Publish.
A crash before 3 leaves nothing visible. A crash after 3 is finished by `recover` or by the replay of the epoch.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.manifest import EpochManifest, decode_manifest, encode_manifest, manifest_name
from millstream.checkpoint.stores.base import ManifestStore
from millstream.errors import CheckpointRefused
from millstream.model.ids import Epoch
from millstream.plan.fingerprint import Fingerprint

RETAINED = 50
"""Manifests kept; older ones are removed once a newer epoch is published."""


_AFRESH = "start in a new checkpoint directory"
_MUST_EQUAL = (
    ("job", "CKPT-005", "the checkpoint belongs to another job", "run that job"),
    ("engine", "CKPT-011", "the checkpoint was written by another engine", "run it on that engine (--local or not)"),
    ("lineage", "CKPT-007", "the manifests of the checkpoint belong to another lineage", "restore lineage.json"),
    ("parallelism", "CKPT-008", "the checkpoint was written with another parallelism", "set parallelism={stored}"),
)
"""Fields of identity that a manifest must agree with: field, code, problem, fix."""


class Participant(Protocol):
    """A sink's committer, as the protocol sees it."""

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """Turn commit messages into a transaction."""
        ...

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Make a transaction visible; repeating it changes nothing."""
        ...

    def discard(self, messages: Sequence[Any]) -> None:
        """Drop staged output."""
        ...

    def recover(self, durable: Epoch | None) -> None:
        """Drop staged output of epochs after `durable`."""
        ...


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose epochs these are."""

    job: str
    lineage: str
    guarantee: str
    fingerprint: Fingerprint
    parallelism: int
    engine: str


class StagedEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch whose rows are all staged."""

    epoch: Epoch
    digest: str
    plan: dict[str, Any]
    planner: dict[str, Any]
    messages: dict[str, list[Any]]
    """Per sink: the commit messages of its tasks, in task order."""
    counts: dict[str, dict[str, int]]
    terminal: bool


class EpochCoordinator:
    """Owns the manifests of one checkpoint."""

    def __init__(self, store: ManifestStore, identity: Identity, sinks: Mapping[str, Participant]) -> None:
        self._store, self._identity = store, identity
        # Sinks are given in the order of the graph; those nearest the end publish first.
        self._sinks = dict(reversed(list(sinks.items())))

    def recover(self) -> EpochManifest | None:
        """Check the newest manifest, publish it, and drop what never became durable."""
        newest = self.newest()
        if newest is not None:
            self._check(newest)
            self._publish(newest)
        for sink in self._sinks.values():
            sink.recover(None if newest is None else Epoch(newest.epoch))
        return newest

    def newest(self) -> EpochManifest | None:
        """The newest manifest, verified."""
        names = self._store.names("manifests/")
        return self._read(names[-1]) if names else None

    def decided(self, epoch: Epoch) -> EpochManifest | None:
        """The durable manifest of an epoch, if it has one."""
        name = manifest_name(epoch)
        return self._read(name) if self._store.read(name) is not None else None

    def commit(self, staged: StagedEpoch) -> EpochManifest:
        """Decide and publish an epoch; an epoch that is durable already is only published."""
        # Step 1. Adopt a durable manifest
        failpoint("staged")
        decided = self.decided(staged.epoch)
        if decided is not None:
            return self._adopt(decided, staged)
        # Step 2. Prepare every sink
        sinks = {name: sink.prepare(staged.epoch, staged.messages.get(name, [])) for name, sink in self._sinks.items()}
        failpoint("prepared")
        # Step 3. Make the manifest durable
        manifest = self._manifest(staged, sinks)
        if not self._store.create(manifest_name(staged.epoch), encode_manifest(manifest)):
            adopted = self.decided(staged.epoch)
            assert adopted is not None, "a manifest that exists can be read"
            return self._adopt(adopted, staged)
        failpoint("durable")
        # Step 4. Publish
        self._publish(manifest)
        failpoint("published")
        self._retire(staged.epoch)
        return manifest

    def _adopt(self, decided: EpochManifest, staged: StagedEpoch) -> EpochManifest:
        if decided.digest != staged.digest:
            msg = f"epoch {staged.epoch} came back with other rows than its manifest records"
            raise CheckpointRefused(
                msg,
                code="CKPT-004",
                found=staged.digest,
                known=decided.digest,
                hint="the source or the checkpoint was changed; restore it",
            )
        for name, messages in staged.messages.items():
            self._sinks[name].discard(messages)
        self._publish(decided)
        return decided

    def _publish(self, manifest: EpochManifest) -> None:
        for name, sink in self._sinks.items():
            if name in manifest.sinks:
                sink.publish(Epoch(manifest.epoch), manifest.sinks[name])
                failpoint("sink_published")

    def _manifest(self, staged: StagedEpoch, sinks: dict[str, Any]) -> EpochManifest:
        return EpochManifest(
            job=self._identity.job,
            lineage=self._identity.lineage,
            epoch=staged.epoch,
            kind="terminal" if staged.terminal else "periodic",
            guarantee=self._identity.guarantee,
            fingerprint=self._identity.fingerprint.whole,
            fingerprint_steps=self._identity.fingerprint.steps,
            parallelism=self._identity.parallelism,
            engine=self._identity.engine,
            digest=staged.digest,
            plan=staged.plan,
            planner=staged.planner,
            sinks=sinks,
            counts=staged.counts,
            created_at=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        )

    def _check(self, newest: EpochManifest) -> None:
        """A checkpoint is resumed by the job, engine and plan that wrote it."""
        for field, code, problem, hint in _MUST_EQUAL:
            stored, mine = getattr(newest, field), getattr(self._identity, field)
            if stored != mine:
                fix = hint.format(stored=stored)
                raise CheckpointRefused(problem, code=code, found=stored, known=mine, hint=f"{fix}, or {_AFRESH}")
        stored_plan = Fingerprint(whole=newest.fingerprint, steps=newest.fingerprint_steps)
        changes = self._identity.fingerprint.changes(stored_plan)
        if changes:
            msg = "the job changed since the checkpoint was written: " + "; ".join(changes)
            raise CheckpointRefused(msg, code="CKPT-006", hint=f"undo the change, or {_AFRESH}")

    def _read(self, name: str) -> EpochManifest:
        content = self._store.read(name)
        assert content is not None, f"{name} was listed"
        return decode_manifest(content, name=name)

    def _retire(self, epoch: int) -> None:
        for name in self._store.names("manifests/")[:-RETAINED]:
            if name < manifest_name(epoch):
                self._store.delete(name)
