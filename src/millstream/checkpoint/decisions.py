"""What the epoch protocol decides, as named outcomes of functions over values; head, lease and coordinator carry them out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from millstream.checkpoint.manifest import EpochManifest, epoch_of, token_of
from millstream.errors import CheckpointRefused
from millstream.model.ids import Epoch


class Phase(StrEnum):
    """How far an epoch is. `ABORTED` follows any phase before `DURABLE`, none after it."""

    CREATED = "CREATED"
    STAGING = "STAGING"
    PRECOMMITTED = "PRECOMMITTED"
    DURABLE = "DURABLE"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


class Unfinished(StrEnum):
    """What is left to do about the epoch in flight before anything else may begin."""

    NOTHING = "nothing"
    GIVE_UP = "give_up"
    """It never became durable; what it prepared is for `restore` to decide about."""
    PUBLISH = "publish"
    """It is durable. Recovery publishes one epoch, so there may not be two that are not published."""


def unfinished(phase: Phase) -> Unfinished:
    """What an epoch leaves to do that came as far as this phase."""
    if phase is Phase.DURABLE:
        return Unfinished.PUBLISH
    return Unfinished.NOTHING if phase in (Phase.COMMITTED, Phase.ABORTED) else Unfinished.GIVE_UP


class EpochStanding(StrEnum):
    """Where an epoch stands, seen from the newest durable one."""

    OVER = "over"
    """Older than the newest durable one: it is never run again."""
    REPLAYED = "replayed"
    """The newest durable one once more: its manifest has the decision."""
    NEXT = "next"
    OUT_OF_ORDER = "out_of_order"

    @property
    def may_begin(self) -> bool:
        """Whether the epoch may run."""
        return self in (EpochStanding.REPLAYED, EpochStanding.NEXT)

    @property
    def is_decided(self) -> bool:
        """Whether a manifest has decided about the epoch."""
        return self in (EpochStanding.OVER, EpochStanding.REPLAYED)


def epoch_standing(epoch: int, durable: int | None) -> EpochStanding:
    """Where an epoch stands; `durable` is the newest durable one, if there is one."""
    if durable is not None and epoch < durable:
        return EpochStanding.OVER
    if epoch == durable:
        return EpochStanding.REPLAYED
    return EpochStanding.NEXT if epoch == (0 if durable is None else durable + 1) else EpochStanding.OUT_OF_ORDER


class EpochDigest(NamedTuple):
    """An epoch and the hash of its plan: which rows it holds."""

    epoch: int
    digest: str


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """The epoch must not go on."""

    problem: CheckpointRefused


@dataclasses.dataclass(frozen=True, slots=True)
class Adopt:
    """The manifest has the decision: it is published again, and what the replay staged is dropped."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prepare:
    """The epoch is new and starts where the one before ended: it is prepared, made durable and published."""


def decide_replay(staged: EpochDigest, decided: EpochDigest) -> Adopt | Stop:
    """What becomes of an epoch that is durable already; only the very same rows are adopted."""
    if staged == decided:
        return Adopt()
    msg = f"epoch {staged.epoch} came back with other rows than its manifest records"
    hint = "the source or the checkpoint was changed; restore it"
    return Stop(CheckpointRefused(msg, code="CKPT-004", found=staged.digest, known=decided.digest, hint=hint))


def decide_new(epoch: int, follows: str, newest: EpochDigest | None) -> Prepare | Stop:
    """What becomes of an epoch that is not durable yet: its plan names the digest of the one it follows."""
    if newest is None or follows == newest.digest:
        return Prepare()
    msg = f"epoch {epoch} does not start where epoch {newest.epoch} ended"
    hint = "the source positions or the checkpoint were changed; see `millstream doctor CHECKPOINT`"
    return Stop(CheckpointRefused(msg, code="CKPT-014", found=follows, known=newest.digest, hint=hint))


class Restoration(NamedTuple):
    """What a participant is told at a start: the newest durable epoch, and what it prepared for it."""

    epoch: Epoch | None
    handle: Any


def restoration(newest: EpochManifest | None, participant: str) -> Restoration:
    """What becomes of a participant's work; one that the newest epoch does not know has nothing to publish."""
    if newest is None:
        return Restoration(None, None)
    record = newest.participants.get(participant)
    return Restoration(Epoch(newest.epoch), None if record is None else record.handle)


class SortedManifests(NamedTuple):
    """The names of a lineage's manifests, by what becomes of them at a start."""

    kept: list[str]
    undecided: list[str]
    """Epochs of earlier owners that were staged and did not become durable."""


def sort_manifests(names: Iterable[str], *, durable: int | None, token: int) -> SortedManifests:
    """Which manifests the head never came to name.

    Only those of earlier owners: if this one was replaced without knowing, the newer ones are not its to remove.
    """
    newest = -1 if durable is None else durable
    parted = SortedManifests([], [])
    for name in names:
        is_undecided = epoch_of(name) > newest and token_of(name) < token
        (parted.undecided if is_undecided else parted.kept).append(name)
    return parted


def retired_manifests(epochs: Mapping[str, int], *, durable: int, retained: int) -> list[str]:
    """Manifests of epochs far behind, of all with their epochs. An owner replaced meanwhile thus removes nothing newer."""
    return [name for name, epoch in epochs.items() if epoch <= durable - retained]


class ReadBack(StrEnum):
    """What became of a swap that did not report success, as told by what is stored now."""

    LANDED = "landed"
    """Our own content is there: only the reply was lost."""
    BEHIND = "behind"
    """An earlier write of this owner landed, which it took for failed: the next one follows on it."""
    REPLACED = "replaced"
    GONE = "gone"


def read_back(sent: bytes, stored: bytes | None, *, is_own: bool = False) -> ReadBack:
    """The outcome of a swap; `is_own` says that what is stored was written by this very owner."""
    if stored == sent:
        return ReadBack.LANDED
    if stored is None:
        return ReadBack.GONE
    return ReadBack.BEHIND if is_own else ReadBack.REPLACED


class Challenge(StrEnum):
    """What someone who wants a lease does about the one that is stored."""

    TAKE = "take"
    REFUSE = "refuse"
    """Its owner lives: it renewed the lease under our eyes."""
    WATCH = "watch"
    OUTCLAIMED = "outclaimed"
    """The run was given to another after it was given to us."""


def challenge(
    term: int | None,
    *,
    is_free: bool,
    is_renewed: bool,
    silent_seconds: float,
    claim: int = 0,
    stored_claim: int = 0,
) -> Challenge:
    """Decide about a lease that is watched.

    Whoever gives runs away numbers that: a later claim need not watch an earlier one, since it is known that the run was taken
    from it, and an earlier one comes too late. Runs that people start have none, and are watched as ever.

    Args:
        term: of the stored lease, in milliseconds; `None` when none is stored.
        is_free: whether it was given back, or its owner is known to have ended.
        is_renewed: whether it changed while it was watched.
        silent_seconds: how long it has not changed.
        claim: of whoever wants it; 0 without one.
        stored_claim: of whoever has it.
    """
    if 0 < claim < stored_claim:
        return Challenge.OUTCLAIMED
    if term is None or is_free or 0 < stored_claim < claim:
        return Challenge.TAKE
    if is_renewed:
        return Challenge.REFUSE
    return Challenge.TAKE if silent_seconds >= term / 1000 else Challenge.WATCH


class Hold(StrEnum):
    """How sure an owner is of its lease."""

    SURE = "sure"
    DOUBTFUL = "doubtful"
    """Its term is nearly over: it is renewed before anything else is written."""
    LOST = "lost"
    GIVEN_BACK = "given_back"


def hold(*, is_lost: bool, is_given_back: bool, silent_seconds: float, term: int) -> Hold:
    """Whether a lease is held now; two thirds of its term leave a third to renew it and to write."""
    if is_lost:
        return Hold.LOST
    if is_given_back:
        return Hold.GIVEN_BACK
    return Hold.DOUBTFUL if silent_seconds > term / 1000 * 2 / 3 else Hold.SURE
