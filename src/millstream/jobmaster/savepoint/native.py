"""Native savepoints: the engine's own files and the manifest they belong to, for the same plan on the same engine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from millstream.checkpoint.head import HeadKeeper
from millstream.checkpoint.manifest import EpochManifest, decode_manifest, encode_manifest, manifest_name
from millstream.checkpoint.savepoint import CopiedFile, Savepoint
from millstream.checkpoint.savepoint_files import describe_file
from millstream.checkpoint.stores.base import ManifestStore
from millstream.checkpoint.stores.local import write_synced

_MANIFEST = "native/manifest.json"


def keep_manifest(root: Path, manifest: EpochManifest) -> CopiedFile:
    """Write the epoch's manifest into a savepoint."""
    path = root / _MANIFEST
    path.parent.mkdir(parents=True, exist_ok=True)
    write_synced(path, encode_manifest(manifest))
    return describe_file(root, _MANIFEST, name="manifest.json")


def adopt_native(store: ManifestStore, keeper: HeadKeeper, root: Path, savepoint: Savepoint) -> None:
    """Let the new lineage begin with the savepoint's epoch as its newest durable one.

    Sinks have nothing to publish of it: its output belongs to the lineage that made it.
    """
    stored = decode_manifest((root / _MANIFEST).read_bytes(), name=str(root / _MANIFEST))
    head = keeper.current
    silent = {uid: msgspec.structs.replace(record, handle=None) for uid, record in stored.participants.items()}
    mine = msgspec.structs.replace(stored, lineage=head.lineage, token=head.token, participants=silent)
    name = manifest_name(head.lineage, mine.epoch, head.token)
    store.delete(name)
    store.create(name, encode_manifest(mine))
    keeper.move(msgspec.structs.replace(head, epoch=mine.epoch, manifest=name))
