"""State at one epoch, of a checkpoint or a savepoint, whichever engine wrote it; read-only.

Engines are found by the name that manifests hold; the one on Spark has a process of its own read its files.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from millstream import registry
from millstream.checkpoint.manifest import EpochManifest, decode_manifest
from millstream.checkpoint.savepoint import RECORD, Savepoint, read_savepoint
from millstream.contract.engine import Engine
from millstream.contract.pages import PageStore
from millstream.errors import CheckpointRefused
from millstream.graph.operations.rank import Deduplicate, TopN
from millstream.inspect.checkpoint import open_view
from millstream.inspect.state.view import LiveRows, SavepointState, StepState, StoreState, state_table
from millstream.model.schema import HIDDEN
from millstream.state.layout import StateLayout
from millstream.state.pages import entry_count
from millstream.state.segments import index_uid

_PART = re.compile(re.escape(HIDDEN) + r"part(\d+)_(\d+)")
"""The stored name of a partial result: which aggregate, which part of it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EngineFiles:
    """Where an engine keeps the pages of an epoch."""

    manifest: EpochManifest
    folder: Path
    """The engine's own folder in the checkpoint or native savepoint."""

    def subtasks(self, level: int) -> Iterator[tuple[int, PageStore]]:
        """The pages of a level, subtask by subtask."""
        return self.engine.read_level(self.folder, self.manifest, level)

    @property
    def engine(self) -> Engine:
        """The engine that wrote them."""
        engine: Engine = registry.find("engines", self.manifest.engine)
        return engine


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """All state at one epoch."""

    where: Path
    job: str
    epoch: int
    engine: str
    layouts: dict[str, StateLayout]
    """Per keyed step, by uid."""
    uids: dict[str, str]
    """Per step id: its uid."""
    savepoint: Savepoint | None = None
    files: EngineFiles | None = None

    @property
    def is_cheap(self) -> bool:
        """Whether reading it starts no Spark."""
        return self.files is None or self.files.engine.reads_cheaply

    def layout(self, step: str) -> StateLayout:
        """The layout of a step, by its id or uid."""
        uid = self.uids.get(step, step)
        if uid not in self.layouts:
            msg = f"no step {step!r} with state in {self.where}"
            raise CheckpointRefused(msg, code="SAVE-010", known=self.layouts, hint="name a step that keeps state")
        return self.layouts[uid]

    def step(self, step: str) -> StepState:
        """The stored pages of a step; of a ranking, those with the rows that count."""
        layout = self.layout(step)
        if _is_ranking(layout) and index_uid(layout.uid) in self.layouts:
            return LiveRows(self._pages(layout), self._pages(self.layouts[index_uid(layout.uid)]))
        return self._pages(layout)

    def _pages(self, layout: StateLayout) -> StepState:
        if self.savepoint is not None and self.files is None:
            return SavepointState(self.where, self.savepoint, layout.uid)
        assert self.files is not None, "state lies in a savepoint or in the files of an engine"
        return StoreState([pages for _, pages in self.files.subtasks(layout.level)], layout)

    def entries(self, step: str) -> int:
        """How many keys (stored rows of a columnar step) are stored."""
        layout = self.layout(step)
        if self.savepoint is not None and self.files is None and not _is_ranking(layout):
            return self.savepoint.entries(layout.uid)
        if layout.form == "columns":
            return int(state_table(self.step(step)).num_rows)
        return sum(entry_count(content) for content in self.step(step).contents())


def open_state(where: str | Path, epoch: int | None = None, manifests: str | None = None) -> StoredState:
    """State of a savepoint directory, or of a retained epoch of a checkpoint directory; the newest by default."""
    root = Path(where)
    if (root / RECORD).is_file():
        return _of_savepoint(root, epoch)
    with open_view(root, manifests, read_only=True) as view:
        manifest = view.manifest(epoch)
    return _of_engine(root, EngineFiles(manifest=manifest, folder=view.folder(manifest.engine, manifest.lineage)))


def read_state(where: str | Path, step: str, epoch: int | None = None, *, manifests: str | None = None) -> pa.Table:
    """The stored keys of a step as a table; nothing is changed, and a job may run meanwhile.

    A step of form `entries` gives its key columns, a column per state, and `timers` with times in milliseconds since 1970; an
    aggregating step may give its partial results as they are stored.

    Args:
        where: a checkpoint directory or a savepoint directory.
        step: id or uid of a keyed step.
        epoch: a retained epoch; the newest by default.
        manifests: the store of the manifests, where the checkpoint has another.
    """
    stored = open_state(where, epoch, manifests).step(step)
    return readable(state_table(stored), stored.layout)


def readable(table: pa.Table, layout: StateLayout) -> pa.Table:
    """Partial results under the names of their aggregates: `total`, or `mean.0` and `mean.1` where there are several."""
    names = [text.partition(" = ")[0] for text in layout.settings.get("aggregates", ())]
    parts = [match and (int(match[1]), match[2]) for match in map(_PART.fullmatch, table.column_names)]
    places = Counter(part[0] for part in parts if part)
    shown = [
        name if part is None else names[part[0]] + (f".{part[1]}" if places[part[0]] > 1 else "")
        for name, part in zip(table.column_names, parts, strict=True)
    ]
    return table.rename_columns(shown) if len(set(shown)) == len(shown) else table


def _is_ranking(layout: StateLayout) -> bool:
    return layout.operation in (TopN.kind, Deduplicate.kind)


def _of_savepoint(root: Path, epoch: int | None) -> StoredState:
    savepoint = read_savepoint(root)
    if epoch not in (None, savepoint.epoch):
        msg = f"epoch {epoch} is not in savepoint {root}"
        raise CheckpointRefused(msg, code="CKPT-017", known=savepoint.epoch, hint="leave the epoch out")
    if savepoint.kind == "native":
        file = root / "native" / "manifest.json"
        manifest = decode_manifest(file.read_bytes(), name=str(file))
        state = _of_engine(root, EngineFiles(manifest=manifest, folder=root / "native" / manifest.engine))
        return dataclasses.replace(state, savepoint=savepoint)
    return StoredState(
        where=root,
        job=savepoint.job,
        epoch=savepoint.epoch,
        engine=savepoint.engine,
        layouts=_layouts(savepoint.layouts),
        uids=savepoint.uids,
        savepoint=savepoint,
    )


def _of_engine(root: Path, files: EngineFiles) -> StoredState:
    manifest = files.manifest
    return StoredState(
        where=root,
        job=manifest.job,
        epoch=manifest.epoch,
        engine=manifest.engine,
        layouts=_layouts(manifest.operators),
        uids=manifest.uids,
        files=files,
    )


def _layouts(stored: Mapping[str, Any]) -> dict[str, StateLayout]:
    return {uid: msgspec.convert(layout, StateLayout) for uid, layout in stored.items()}
