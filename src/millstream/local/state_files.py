"""State of the local engine: one file per epoch and owner, named and checked by the epoch's manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from millstream.checkpoint.manifest import EpochManifest, StateFileRecord
from millstream.checkpoint.names import below
from millstream.checkpoint.stores.local import sync_directory, write_synced
from millstream.errors import CheckpointRefused

_CODEC = "msgpack"
State = dict[str, dict[str, bytes]]
"""Pages by task (`level/subtask`)."""


class StateFiles:
    """The state files of one lineage."""

    def __init__(self, folder: Path, *, token: int, retained: int) -> None:
        self._folder, self._token, self._retained = folder, token, retained
        self._written: list[Path] = []

    def save(self, epoch: int, state: State) -> StateFileRecord:
        """State is on disk before the manifest that needs it; the name is this owner's alone."""
        self._folder.mkdir(parents=True, exist_ok=True)
        content = msgspec.msgpack.encode(state)
        path = self._folder / f"state-{epoch:012d}-{self._token:06d}"
        write_synced(path, content)
        sync_directory(self._folder)
        self._written.append(path)
        digest = hashlib.sha256(content).hexdigest()
        return StateFileRecord(type="state", path=path.name, codec=_CODEC, bytes=len(content), checksum=digest)

    def retire(self) -> None:
        """Drop the state of epochs that are no longer kept; called once an epoch is durable."""
        names = sorted(path for path in self._folder.glob("state-*"))
        # The last two at least: the newest may be of an epoch that did not become durable.
        for path in names[: -max(2, self._retained)]:
            path.unlink(missing_ok=True)

    def load(self, manifest: EpochManifest) -> State:
        """The state of a durable epoch, verified."""
        return load_state(self._folder, manifest)


def load_state(folder: Path, manifest: EpochManifest) -> State:
    """The state that a manifest names, verified."""
    segment = next((each for each in manifest.segments if each.type == "state"), None)
    if segment is None:
        return {}
    if segment.codec != _CODEC:
        raise _unreadable(manifest.epoch, f"codec {segment.codec!r} is unknown")
    try:
        content = below(folder, segment.path, of="a file of state").read_bytes()
    except FileNotFoundError:
        raise _unreadable(manifest.epoch, f"{segment.path} is missing") from None
    if hashlib.sha256(content).hexdigest() != segment.checksum:
        raise _unreadable(manifest.epoch, f"the checksum of {segment.path} does not match")
    try:
        return msgspec.msgpack.decode(content, type=State)
    except msgspec.DecodeError as problem:
        raise _unreadable(manifest.epoch, f"{segment.path} holds no pages ({problem})") from None


def _unreadable(epoch: int, why: str) -> CheckpointRefused:
    msg = f"the state of epoch {epoch} cannot be read: {why}"
    hint = "restore the file from a copy, start from a savepoint, or give the state up with --ignore-state-once"
    return CheckpointRefused(msg, code="CKPT-009", hint=hint)
