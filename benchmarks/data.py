"""Input of the comparisons: parquet files of (k long, x double), some with a time; made once, the same for both sides."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "k long, x double"
_FIRST_MTIME = 1_700_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How much input, and how it is cut into epochs."""

    epoch_rows: int
    epochs: int
    keys: int
    files_per_epoch: int = 4
    warm: int = 2
    """Epochs that are run but not measured."""
    constant: bool = False
    """Whether x depends on the key alone, so that running sums do not depend on the order of rows."""
    loaded: bool = False
    """Whether the first epochs bring every key once."""
    seconds: int = 0
    """How much event time an epoch covers, evenly and in order; without any, rows have no time."""

    @property
    def name(self) -> str:
        kind = "loaded" if self.loaded else "constant" if self.constant else "random"
        timed = f"-{self.seconds}s" if self.seconds else ""
        return f"{kind}-{self.epoch_rows}x{self.epochs}-{self.keys}k-{self.files_per_epoch}f{timed}"

    @property
    def schema(self) -> str:
        return f"{SCHEMA}, at timestamp" if self.seconds else SCHEMA


def generated(root: Path, shape: Shape) -> Path:
    """The folder with the files of a shape; files are ordered by name and by modification time alike."""
    folder = root / shape.name
    if folder.exists():
        return folder
    partial = root / f".{shape.name}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    random = np.random.default_rng(7)
    for number in range(shape.epochs * shape.files_per_epoch):
        path = partial / f"{number:05d}.parquet"
        pq.write_table(_table(shape, random, number), path)
        os.utime(path, (_FIRST_MTIME + number, _FIRST_MTIME + number))
    partial.rename(folder)
    return folder


def _table(shape: Shape, random: np.random.Generator, number: int) -> pa.Table:
    rows = shape.epoch_rows // shape.files_per_epoch
    keys = random.integers(0, shape.keys, rows, np.int64)
    if shape.loaded and number * rows < shape.keys:
        keys = np.arange(number * rows, (number + 1) * rows, dtype=np.int64) % shape.keys
    # Quarters add up exactly, so sums are equal whatever the order of addition.
    values = keys % 97 if shape.constant else random.integers(0, 4000, rows)
    table = pa.table({"k": keys, "x": values / 4})
    if not shape.seconds:
        return table
    numbers = np.arange(number * rows, (number + 1) * rows)
    at = _FIRST_MTIME * 1000 + numbers * shape.seconds * 1000 // shape.epoch_rows
    return table.append_column("at", pa.array(at, pa.timestamp("ms", "UTC")))
