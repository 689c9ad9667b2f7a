"""What a complete run leaves to the next one of its job, and what becomes of the runs before it."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from millstream import registry
from millstream.checkpoint.head import Head
from millstream.checkpoint.manifest import EpochManifest, decode_manifest, manifest_prefix
from millstream.checkpoint.page_file import PageFile
from millstream.checkpoint.sealed import damaged
from millstream.checkpoint.stores.base import ManifestStore
from millstream.contract.engine import Engine
from millstream.jobmaster.savepoint.take import take_savepoint
from millstream.plan.start import Start
from millstream.state.layout import StateLayout
from millstream.state.transfer.export import export_pages

CARRIED = "carried"
"""The folder of a checkpoint with what complete runs leave to the next."""


def followed_run(store: ManifestStore, head: Head | None, start: Start) -> EpochManifest | None:
    """The last epoch of the run that another one may begin behind.

    Nothing where that run is not complete, or the start belongs to it itself. Everything of it must be published already.
    """
    if start.carry is None or head is None or head.epoch is None or head.origin.run.id == start.run:
        return None
    content = store.read(head.manifest)
    if content is None:
        what = f"manifest {head.manifest}"
        raise damaged(what, "the head names it, but it is not there")
    manifest = decode_manifest(content, name=head.manifest)
    return manifest if manifest.kind == "terminal" else None


def carry_over(root: Path, head: Head, manifest: EpochManifest, start: Start) -> str:
    """Keep what the next run takes over, once however often it is asked for; where, or nothing."""
    if start.carry == "nothing":
        return ""
    with_state = start.carry == "state"
    path = root.resolve() / CARRIED / f"{manifest.lineage}-{start.carry}"
    folder = root / "sources" / manifest.lineage
    take_savepoint(
        path,
        f"carried-{manifest.lineage}-{manifest.epoch}-{start.carry}",
        manifest if with_state else msgspec.structs.replace(manifest, operators={}),
        key_groups=manifest.requirements["key_groups"],
        history=[*head.origin.history, (manifest.lineage, manifest.epoch)],
        files=exported_state(manifest, root / manifest.engine / manifest.lineage, path) if with_state else (),
        sources={uid: folder / uid for uid in manifest.sources},
    )
    return str(path)


def exported_state(manifest: EpochManifest, folder: Path, root: Path) -> list[Mapping[str, PageFile]]:
    """The state of an epoch of a run that has ended, written into a savepoint as the run would have done it itself.

    Args:
        manifest: of the epoch.
        folder: where its engine keeps state.
        root: the directory of the savepoint.
    """
    engine: Engine = registry.find("engines", manifest.engine)
    layouts = {uid: msgspec.convert(layout, StateLayout) for uid, layout in manifest.operators.items()}
    attempt = uuid.uuid4().hex[:8]
    return [
        export_pages(pages, layouts, root, level=level, subtask=subtask, attempt=attempt)
        for level in sorted({layout.level for layout in layouts.values()})
        for subtask, pages in engine.read_level(folder, manifest, level)
    ]


def forget_runs(store: ManifestStore, root: Path, lineages: Iterable[str]) -> None:
    """Remove what lineages of earlier runs keep, but for the newest manifest of each: that is their history."""
    for lineage in lineages:
        folders = [path for path in _folders(root, lineage) if path.is_dir()]
        # They go last, so that one who was interrupted finds what is left to do.
        for name in store.names(manifest_prefix(lineage))[:-1] if folders else ():
            store.delete(name)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _folders(root: Path, lineage: str) -> list[Path]:
    engines = [root / name / lineage for name in registry.names("engines")]
    # A stored name is no pattern: what it does not say letter by letter stays.
    staged = [sink / lineage for sink in root.glob("staging/*")]
    carried = [path for path in root.glob(f"{CARRIED}/*") if path.name.startswith(f"{lineage}-")]
    return [*engines, root / "sources" / lineage, *staged, *carried]
