"""The driver's part of taking a savepoint: source logs and the record, once the epoch is published."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Literal

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
    state: dict[str, list[PageFile]] = {uid: [] for uid in manifest.operators}
    for reported in files:
        for uid, file in reported.items():
            state[uid].append(file)
    return create_savepoint(
        root,
        Savepoint(
            id=identifier,
            kind=kind,
            job=manifest.job,
            lineage=manifest.lineage,
            history=history,
            epoch=manifest.epoch,
            token=manifest.token,
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
            state=state,
            sources=export_sources(sources, root, attempt=uuid.uuid4().hex[:8]),
            native=list(native),
            uids=manifest.uids,
            counts=manifest.counts,
            created_at=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            version=version("millstream"),
        ),
    )
