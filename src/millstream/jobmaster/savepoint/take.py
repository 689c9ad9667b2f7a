"""The driver's part of taking a savepoint: source logs and the record, once the epoch is published."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from millstream.checkpoint.manifest import EpochManifest, source_connectors
from millstream.checkpoint.page_file import PageFile
from millstream.checkpoint.savepoint import CopiedFile, Savepoint, create_savepoint, existing_savepoint
from millstream.state.transfer.export import export_sources


def take_savepoint(
    path: str | Path,
    identifier: str,
    manifest: EpochManifest,
    *,
    key_groups: int,
    history: list[tuple[str, int]],
    files: Sequence[Mapping[str, PageFile]] = (),
    native: Sequence[CopiedFile] = (),
    sources: Mapping[str, Path],
    kind: Literal["canonical", "native"] = "canonical",
) -> Savepoint:
    """Make the savepoint of a published epoch valid; one that is valid already stays as it is."""
    root = Path(path)
    existing = existing_savepoint(root, identifier)
    if existing is not None:
        return existing
    state = _by_step(manifest.operators, files)
    copied = export_sources(sources, root, attempt=uuid.uuid4().hex[:8])
    record = _record(identifier, manifest, kind=kind, key_groups=key_groups, history=history)
    return create_savepoint(root, msgspec.structs.replace(record, state=state, sources=copied, native=list(native)))


def _by_step(uids: Iterable[str], files: Sequence[Mapping[str, PageFile]]) -> dict[str, list[PageFile]]:
    """The files of pages that the tasks reported."""
    state: dict[str, list[PageFile]] = {uid: [] for uid in uids}
    for reported in files:
        for uid, file in reported.items():
            state[uid].append(file)
    return state


def _record(
    identifier: str,
    manifest: EpochManifest,
    *,
    kind: Literal["canonical", "native"],
    key_groups: int,
    history: list[tuple[str, int]],
) -> Savepoint:
    """What a savepoint takes over from the manifest of its epoch."""
    return Savepoint(
        id=identifier,
        kind=kind,
        job=manifest.job,
        lineage=manifest.lineage,
        history=history,
        epoch=manifest.epoch,
        token=manifest.token,
        run=manifest.run,
        guarantee=manifest.guarantee,
        fingerprint=manifest.fingerprint,
        fingerprint_steps=manifest.fingerprint_steps,
        parallelism=manifest.parallelism,
        key_groups=key_groups,
        depth=manifest.depth,
        connectors=source_connectors(manifest),
        protocols={uid: sink.protocol for uid, sink in manifest.sinks.items()},
        engine=manifest.engine,
        plan=manifest.plan,
        planner=manifest.planner,
        layouts=manifest.operators,
        uids=manifest.uids,
        counts=manifest.counts,
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        version=_version(),
    )


def _version() -> str:
    # It brings thirty modules along, which a run without savepoints does not need.
    from importlib.metadata import version

    return version("millstream")
