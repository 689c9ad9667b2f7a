"""Drives one epoch from staged output to published output, and finishes what a crash left behind.

1. Adopt a durable manifest, if there is one.  2. Save and prepare every participant.  3. Make the manifest durable.
4. Publish. A crash before 3 leaves nothing visible. A crash after 3 is finished by `recover` or by the replay of the epoch.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from millstream.checkpoint.decisions import (
    Adopt,
    EpochDigest,
    EpochStanding,
    Phase,
    Prepare,
    Stop,
    Unfinished,
    decide_new,
    decide_replay,
    epoch_standing,
    restoration,
    retired_manifests,
    sort_manifests,
    unfinished,
)
from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.head import HeadKeeper
from millstream.checkpoint.manifest import (
    EpochManifest,
    ParticipantRecord,
    decode_manifest,
    encode_manifest,
    epoch_of,
    manifest_name,
    manifest_prefix,
)
from millstream.checkpoint.participant import Participant
from millstream.checkpoint.sealed import damaged
from millstream.checkpoint.staged import Identity, StagedEpoch, manifest_of
from millstream.checkpoint.stores.base import ManifestStore
from millstream.errors import CheckpointRefused, ExternalFailure
from millstream.model.ids import Epoch

_FOLLOWS: dict[Phase, tuple[Phase, ...]] = {
    Phase.CREATED: (Phase.COMMITTED, Phase.ABORTED),
    Phase.STAGING: (Phase.CREATED,),
    Phase.PRECOMMITTED: (Phase.STAGING,),
    Phase.DURABLE: (Phase.PRECOMMITTED, Phase.STAGING),
    Phase.COMMITTED: (Phase.DURABLE,),
    Phase.ABORTED: (Phase.CREATED, Phase.STAGING, Phase.PRECOMMITTED),
}


class OwnershipCheck(Protocol):
    """Whoever may write: raises once another took over."""

    def check(self) -> None:
        """Raise unless still the owner."""
        ...


class EpochCoordinator:
    """Owns the manifests of one lineage. One epoch is in flight at a time."""

    def __init__(
        self,
        store: ManifestStore,
        head: HeadKeeper,
        identity: Identity,
        participants: Mapping[str, Participant],
        owner: OwnershipCheck,
        *,
        retained: int = 50,
    ) -> None:
        self._store, self._head, self._identity, self._owner = store, head, identity, owner
        # In the order of the graph, from sources to sinks.
        self._participants = dict(participants)
        self._retained = retained
        self.phase = Phase.COMMITTED
        self._times: dict[str, float] = {}
        """When the epoch in flight came where it is, by the clock that only rises."""
        self._newest: EpochManifest | None = None
        self._kept: dict[str, int] = {}
        """The lineage's manifests by name, with their epochs, so that retiring one does not list the store every epoch."""

    # Start.

    def recover(self, check: Callable[[EpochManifest | None], None]) -> EpochManifest | None:
        """Fence, read the newest manifest, let `check` refuse it, publish it, drop what never became durable."""
        for participant in self._participants.values():
            participant.fence()
        self._newest = newest = self.newest()
        check(newest)
        self._remove_undecided()
        for name, participant in reversed(self._participants.items()):
            participant.restore(*restoration(newest, name))
        return newest

    def newest(self) -> EpochManifest | None:
        """The manifest the head names, verified."""
        head = self._head.current
        return None if head.epoch is None else self._read(head.manifest)

    def _remove_undecided(self) -> None:
        """A manifest the head never came to name is a staged epoch that was not durable."""
        head = self._head.current
        names = self._store.names(manifest_prefix(head.lineage))
        parted = sort_manifests(names, durable=head.epoch, token=self._identity.token)
        for name in parted.undecided:
            self._store.delete(name)
        self._kept |= {name: epoch_of(name) for name in parted.kept}

    # One epoch.

    def begin(self, epoch: Epoch) -> None:
        """The epoch's range is fixed; its rows are about to be staged. An epoch that is not the next one is refused."""
        self._owner.check()
        if not self._standing(epoch).may_begin:
            newest = -1 if self._head.current.epoch is None else self._head.current.epoch
            msg = f"epoch {epoch} does not follow the newest durable epoch {newest}"
            raise CheckpointRefused(msg, code="CKPT-013", hint="see `millstream doctor CHECKPOINT`")
        match unfinished(self.phase):
            case Unfinished.GIVE_UP:
                self._enter(Phase.ABORTED)
            case Unfinished.PUBLISH:
                assert self._newest is not None, "a durable epoch has a manifest"
                self._publish(self._newest)
            case Unfinished.NOTHING:
                pass
        self._enter(Phase.CREATED)
        self._enter(Phase.STAGING)

    def commit(self, staged: StagedEpoch) -> EpochManifest:
        """Decide and publish an epoch; an epoch that is durable already is only published."""
        # Step 1. Adopt a durable manifest
        failpoint("staged")
        self._times["staged"] = time.monotonic()
        if self._is_decided(staged.epoch):
            return self._adopt(staged)
        self._check_chain(staged)
        # Step 2. Save and prepare every participant
        manifest = self._prepared(staged)
        failpoint("prepared")
        # Step 3. Make the manifest durable
        self._make_durable(manifest)
        failpoint("durable")
        # Step 4. Publish
        self._publish(manifest)
        failpoint("published")
        self._retire()
        return manifest

    def phase_seconds(self) -> dict[str, float]:
        """How long each phase of the epoch that was just published took; a replay does not make it durable again."""
        ends = {"tasks": "staged", "prepare": Phase.PRECOMMITTED, "persist": Phase.DURABLE, "publish": Phase.COMMITTED}
        began, took = self._times[Phase.STAGING], {}
        for name, end in ends.items():
            reached = max(began, self._times.get(end, began))
            took[name], began = reached - began, reached
        return took

    def abort(self) -> None:
        """The epoch failed before it was durable. Prepared work is kept: `restore` decides about it."""
        if unfinished(self.phase) is Unfinished.GIVE_UP:
            self._enter(Phase.ABORTED)

    def _enter(self, phase: Phase) -> None:
        assert self.phase in _FOLLOWS[phase], f"{phase} cannot follow {self.phase}"
        self.phase = phase
        self._times[phase] = time.monotonic()

    def _standing(self, epoch: int) -> EpochStanding:
        return epoch_standing(epoch, self._head.current.epoch)

    def _is_decided(self, epoch: Epoch) -> bool:
        return self._standing(epoch).is_decided

    def _adopt(self, staged: StagedEpoch) -> EpochManifest:
        """An epoch that is durable already comes back."""
        decided = self.newest()
        assert decided is not None, "a decided epoch has a manifest"
        match decide_replay(EpochDigest(staged.epoch, staged.digest), EpochDigest(decided.epoch, decided.digest)):
            case Stop(problem):
                raise problem
            case Adopt():
                self._drop_replayed(staged, decided)
                self._publish(decided)
        return decided

    def _drop_replayed(self, staged: StagedEpoch, decided: EpochManifest) -> None:
        """What the manifest names takes the place of what the replay staged."""
        self._enter(Phase.DURABLE)
        for name, participant in self._participants.items():
            participant.discard(staged.messages.get(name, []))
            if name in decided.participants:
                participant.decide(staged.epoch, decided.participants[name].handle)

    def _check_chain(self, staged: StagedEpoch) -> None:
        """An epoch starts where the one before ended."""
        newest = None if self._newest is None else EpochDigest(self._newest.epoch, self._newest.digest)
        match decide_new(staged.epoch, staged.follows, newest):
            case Stop(problem):
                raise problem
            case Prepare():
                pass

    def _prepared(self, staged: StagedEpoch) -> EpochManifest:
        records: dict[str, ParticipantRecord] = {}
        saved = {
            name: participant.save(staged.epoch, staged.messages.get(name, []))
            for name, participant in self._participants.items()
        }
        for name, participant in self._participants.items():
            handle = participant.prepare(staged.epoch)
            records[name] = ParticipantRecord(type=participant.type, state=saved[name], handle=handle)
        self._enter(Phase.PRECOMMITTED)
        created_at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        return manifest_of(self._identity, staged, records, created_at=created_at)

    def _make_durable(self, manifest: EpochManifest) -> None:
        """Write the manifest, then move the head to it. Both are refused once another owner moved the head."""
        name = manifest_name(manifest.lineage, manifest.epoch, manifest.token)
        content = encode_manifest(manifest)
        try:
            self._owner.check()
            if not self._store.create(name, content) and self._store.read(name) != content:
                # This owner's own earlier attempt at the epoch. The head may have come to name it although the swap
                # reported a failure, so it stays; the next owner reads the head and decides.
                msg = f"manifest {name} is there already, of an attempt whose outcome is not known"
                raise ExternalFailure(msg, code="CKPT-015", hint="start the job again")
            failpoint("manifest_written")
            self._head.move(
                msgspec.structs.replace(self._head.current, epoch=manifest.epoch, manifest=name, token=manifest.token)
            )
        except BaseException:
            for participant in self._participants.values():
                participant.finish(Epoch(manifest.epoch), success=False)
            self.abort()
            raise
        self._newest = manifest
        self._kept[name] = manifest.epoch
        self._enter(Phase.DURABLE)

    def _publish(self, manifest: EpochManifest) -> None:
        """Sinks nearest the end first; sources acknowledge last."""
        for participant in reversed(self._participants.values()):
            participant.finish(Epoch(manifest.epoch), success=True)
            failpoint("sink_published")
        self._enter(Phase.COMMITTED)

    def _read(self, name: str) -> EpochManifest:
        content = self._store.read(name)
        if content is None:
            what = f"manifest {name}"
            raise damaged(what, "the head names it, but it is not there")
        return decode_manifest(content, name=name)

    def _retire(self) -> None:
        """Remove manifests of epochs far behind."""
        durable = self._head.current.epoch
        assert durable is not None, "an epoch was just published"
        for name in retired_manifests(self._kept, durable=durable, retained=self._retained):
            self._store.delete(name)
            del self._kept[name]
