"""A checkpoint as others may look at it: lease, head and manifests, without owning it and without changing anything."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from urllib.parse import unquote

from millstream.checkpoint.head import HEAD, Head, decode_head
from millstream.checkpoint.lease_record import LEASE, LeaseRecord, decode_lease
from millstream.checkpoint.manifest import EpochManifest, decode_manifest, epoch_of, manifest_prefix
from millstream.checkpoint.sealed import damaged
from millstream.checkpoint.stores.base import ManifestStore
from millstream.checkpoint.stores.open import open_for_reading, open_store
from millstream.errors import CheckpointRefused

_FOLDER = "millstream"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """The directory of a checkpoint and the store of its manifests."""

    root: Path
    store: ManifestStore

    def __enter__(self) -> CheckpointView:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def lease(self) -> LeaseRecord | None:
        """The stored lease, verified."""
        stored = self.store.read(LEASE)
        return None if stored is None else decode_lease(stored)

    def head(self) -> Head | None:
        """The stored head, verified."""
        stored = self.store.read(HEAD)
        return None if stored is None else decode_head(stored)

    @property
    def is_running(self) -> bool:
        """Whether someone runs it, as far as that can be known from here."""
        record = self.lease()
        return record is not None and is_alive(record)

    def folder(self, name: str, lineage: str) -> Path:
        """A folder of a lineage inside the checkpoint directory."""
        return self.root / name / lineage

    def retained(self, head: Head) -> dict[int, str]:
        """The names of the durable manifests by epoch.

        Where two owners wrote one epoch, the one with the higher token had taken over before the epoch was durable.
        """
        names = self.store.names(manifest_prefix(head.lineage))
        durable = {epoch_of(name): name for name in names if head.epoch is not None and epoch_of(name) <= head.epoch}
        return durable if head.epoch is None else {**durable, head.epoch: head.manifest}

    def undecided(self, head: Head) -> list[str]:
        """Manifests the head never came to name: epochs that were staged and not durable."""
        return [
            name
            for name in self.store.names(manifest_prefix(head.lineage))
            if head.epoch is None or epoch_of(name) > head.epoch
        ]

    def manifest(self, epoch: int | None = None) -> EpochManifest:
        """The manifest of a retained epoch, the newest by default, verified."""
        head = self.head()
        names = {} if head is None else self.retained(head)
        wanted = max(names, default=-1) if epoch is None else epoch
        if wanted not in names:
            what = "no epoch is durable yet" if epoch is None else f"epoch {epoch} is not retained"
            msg = f"{what} in checkpoint {self.root}"
            known = f"epochs {min(names)} to {max(names)}" if names else "no epoch"
            raise CheckpointRefused(msg, code="CKPT-017", known=known, hint="name a retained epoch")
        return self.read_manifest(names[wanted])

    def read_manifest(self, name: str) -> EpochManifest:
        """A manifest by its name, verified."""
        content = self.store.read(name)
        if content is None:
            what = f"manifest {name}"
            raise damaged(what, "it is not there")
        return decode_manifest(content, name=name)


def is_alive(record: LeaseRecord) -> bool:
    """Whether a lease is held: not released, its process not known to be gone, renewed within its term."""
    is_recent = time.time() - record.renewed_at <= record.term / 1000
    return is_recent and not record.is_released and not record.process.is_gone


def open_view(root: Path | str, manifests: str | None = None, *, read_only: bool = False) -> CheckpointView:
    """Look at a checkpoint; one that is not there is an error, and nothing is made. With `read_only` nothing can be changed.

    Raises:
        CheckpointRefused: (CKPT-016) there is no checkpoint.
    """
    place = Path(root)
    inside = place / _FOLDER
    store = _path_of(manifests) if manifests is not None else inside
    if not place.is_dir() or (store is not None and not _is_store(store, manifests)):
        msg = f"there is no checkpoint at {place}"
        raise CheckpointRefused(
            msg,
            code="CKPT-016",
            found=str(place if not place.is_dir() else store),
            hint="give the directory of --checkpoint, and --manifests URL where the job has one; best_effort keeps none",
        )
    opened = open_for_reading if read_only else open_store
    return CheckpointView(root=place, store=opened(inside if manifests is None else manifests))


def has_manifests(url: str) -> bool:
    """Whether there is a store of manifests at a url, as far as that shows without opening it, which might make it."""
    path = _path_of(url)
    return path is None or _is_store(path, url)


def _is_store(path: Path, manifests: str | None) -> bool:
    return path.is_file() if manifests is not None and manifests.startswith("sqlite://") else path.is_dir()


def _path_of(url: str) -> Path | None:
    """What must exist before a store is opened, since opening makes it; `None` where that is not a file."""
    if "://" not in url:
        return Path(url)
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        return Path(unquote(rest.partition("?")[0].partition("#")[0].removeprefix("/")))
    return Path(unquote(rest.removeprefix("localhost"))) if scheme == "file" else None
