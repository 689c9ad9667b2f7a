"""The head of a checkpoint: who owns it, which lineage it is in, and the newest durable epoch.

An epoch becomes durable when the head is swapped to name its manifest. The swap compares what was there, so an owner that
was replaced meanwhile cannot move the head: that is the fence of the manifests.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from millstream.checkpoint.decisions import ReadBack, read_back
from millstream.checkpoint.names import stored_part, stored_path
from millstream.checkpoint.run_record import RunRecord
from millstream.checkpoint.sealed import seal, unseal_as
from millstream.checkpoint.stores.base import ManifestStore
from millstream.errors import CheckpointRefused, Fenced

HEAD = "head.json"
FORMAT = 1


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a lineage started."""

    savepoint: str = ""
    """The directory of the savepoint it was restored from."""
    savepoint_id: str = ""
    history: list[tuple[str, int]] = []
    """The earlier lineages and their last epoch that counts."""
    newer_output: Literal["refuse", "keep", "truncate"] = "refuse"
    """What the request said about output beyond the history."""
    ignored: str = ""
    """The lineage whose state was given up by --ignore-state-once."""
    run: RunRecord = RunRecord()
    """The run it belongs to."""
    begins_run: bool = False
    """Whether the run begins with it, behind one that is complete: then there is nothing to take over from anybody."""

    replaced: list[str] = []
    """Lineages of this checkpoint that gave way to this one. Sinks close them even if they never saw them: an owner of one
    may have been paused before it came to fence."""

    def __post_init__(self) -> None:
        for lineage in (*(lineage for lineage, _ in self.history), *self.replaced):
            stored_part(lineage, of="a lineage")

    @property
    def starts_from_earlier(self) -> bool:
        """Whether the lineage takes over from earlier ones."""
        return bool(self.savepoint or self.ignored) and not self.begins_run

    @property
    def before_run(self) -> list[tuple[str, int]]:
        """The lineages of earlier runs, and their last epoch."""
        return self.history[: self.run.since]

    @property
    def of_run(self) -> list[tuple[str, int]]:
        """The earlier lineages of the same run, and their last epoch that counts."""
        return self.history[self.run.since :]

    @property
    def closes(self) -> list[tuple[str, int]]:
        """Every lineage that sinks close, with the last epoch of it that counts; -1 where none does."""
        counted = {lineage for lineage, _ in self.history}
        return [*self.history, *((lineage, -1) for lineage in self.replaced if lineage not in counted)]


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The recovery line."""

    job: str
    lineage: str
    token: int
    epoch: int | None = None
    """Newest durable epoch of the lineage."""
    manifest: str = ""
    origin: Origin = Origin()

    def __post_init__(self) -> None:
        stored_part(self.lineage, of="a lineage")
        if self.manifest:
            stored_path(self.manifest, of="a manifest")


class HeadKeeper:
    """Reads and moves the head for one owner."""

    def __init__(self, store: ManifestStore, *, ignore_damage: bool = False) -> None:
        self._store = store
        self._stored = store.read(HEAD)
        self._head: Head | None = None
        try:
            self._head = None if self._stored is None else decode_head(self._stored)
        except CheckpointRefused:
            if not ignore_damage:
                raise

    @property
    def head(self) -> Head | None:
        """The head as this owner last saw or moved it."""
        return self._head

    @property
    def current(self) -> Head:
        """The head of a checkpoint that has one."""
        if self._head is None:
            msg = "the checkpoint has no head that can be read"
            raise CheckpointRefused(msg, code="CKPT-012", hint="see `millstream doctor CHECKPOINT`")
        return self._head

    def move(self, wanted: Head) -> None:
        """Swap the head; an owner that lost it to another is refused.

        A lost reply is resolved by reading: our own content there means that the swap was done. An owner that slept before
        it first read the head finds a later owner's token there and is refused too.
        """
        if self._head is not None and wanted.token < self._head.token:
            raise _fenced(wanted, self._head)
        content = encode_head(wanted)
        if not self._store.swap(HEAD, self._stored, content):
            self._resolve(wanted, content)
        self._stored, self._head = content, wanted

    def _resolve(self, wanted: Head, sent: bytes) -> None:
        stored = self._store.read(HEAD)
        match read_back(sent, stored):
            case ReadBack.LANDED:
                return
            case ReadBack.GONE:
                msg, hint = (
                    "the head of the checkpoint is gone",
                    "someone removed it; see `millstream doctor CHECKPOINT`",
                )
                raise CheckpointRefused(msg, code="CKPT-012", hint=hint)
            case ReadBack.REPLACED | ReadBack.BEHIND:
                assert stored is not None, "what replaced the head is there"
                raise _fenced(wanted, decode_head(stored))


def _fenced(wanted: Head, other: Head) -> Fenced:
    msg = "another owner took over this checkpoint"
    return Fenced(msg, found=f"token {wanted.token}", known=f"token {other.token}", hint="this run ends by itself")


def newest_token(store: ManifestStore) -> int:
    """The token of the head; 0 when there is none, or none that can be read.

    Every owner's token lies above it, also after someone removed the lease.
    """
    stored = store.read(HEAD)
    try:
        return 0 if stored is None else decode_head(stored).token
    except CheckpointRefused:
        return 0


def refuse_headless(store: ManifestStore) -> None:
    """Manifests without a head are a checkpoint that lost it; taking it for a new one would repeat its output."""
    names = store.names("manifests/")
    if names:
        msg = f"the checkpoint has {len(names)} manifests but no head"
        hint = "restore head.json from a copy; see `millstream doctor CHECKPOINT`"
        raise CheckpointRefused(msg, code="CKPT-012", hint=hint)


def encode_head(head: Head) -> bytes:
    """The stored form."""
    content: Any = msgspec.to_builtins(head)
    return seal(content, format=FORMAT)


def decode_head(data: bytes) -> Head:
    """Read the stored form, verified."""
    return unseal_as(Head, data, name=HEAD, format=FORMAT)
