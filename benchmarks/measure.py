"""What is measured and how: epochs with their seconds, a digest of the output, memory and CPU of the process tree."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd
import pyarrow.dataset as ds

from benchmarks.process_tree import watched

Scale = Literal["small", "full"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where and at which scale one side of a comparison runs."""

    scale: Scale
    data: Path
    """Input, shared by the sides."""
    work: Path
    """Checkpoint and output of this side."""

    @property
    def output(self) -> Path:
        return self.work / "output"


class Epoch(NamedTuple):
    """One epoch that read rows."""

    rows: int
    seconds: float
    ended: float
    """On the wall clock."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Measured:
    """What one side did."""

    epochs: list[Epoch]
    rows: int = 0
    digest: str = ""
    """Of the output rows as a multiset."""
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    """Peak bytes by kind of process."""
    cpu: list[float] = dataclasses.field(default_factory=list)
    """CPU seconds that all processes of the side had used at the end of each epoch."""
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    """Further figures of a comparison that is not about epochs alone."""

    def rate(self, warm: int) -> float:
        """Rows a second over the epochs after the warm-up."""
        steady = self.epochs[warm:]
        return sum(epoch.rows for epoch in steady) / sum(epoch.seconds for epoch in steady)

    def period(self, warm: int) -> float:
        """The median seconds of an epoch after the warm-up."""
        return statistics.median(epoch.seconds for epoch in self.epochs[warm:])

    def cpu_per_row(self, warm: int) -> float:
        """CPU seconds a row after the warm-up; other load on the machine changes it much less than the rate."""
        return (self.cpu[-1] - self.cpu[warm - 1]) / sum(epoch.rows for epoch in self.epochs[warm:])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table."""

    what: str
    unit: str
    ours: float
    rival: float | None = None
    rival_name: str = ""
    ratio: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    cpu_ratio: float | None = None
    """CPU per row of the rival to ours; above 1, ours needs less."""
    equal: bool | None = None
    """Whether both sides gave the same rows; `None` when rows are not the subject."""

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "" if self.at_most is None else f"<= {self.at_most:g}"

    @property
    def met(self) -> bool | None:
        """Whether the ratio reaches its target; `None` without one."""
        if self.ratio is None or not self.target:
            return None
        return self.ratio >= self.at_least if self.at_least is not None else self.ratio <= (self.at_most or 0.0)


Side = Callable[[Setting], Measured]
Sides = Mapping[str, Measured]


def compared(
    what: str, sides: Sides, ours: str, rival: str, *, warm: int, name: str, at_least: float | None = None
) -> Line:
    """A line of rows a second; the ratio is ours to the rival's."""
    mine, theirs = sides[ours], sides[rival]
    return Line(
        what=what,
        unit="rows/s",
        ours=mine.rate(warm),
        rival=theirs.rate(warm),
        rival_name=name,
        ratio=mine.rate(warm) / theirs.rate(warm),
        at_least=at_least,
        cpu_ratio=theirs.cpu_per_row(warm) / mine.cpu_per_row(warm),
        equal=(mine.rows, mine.digest) == (theirs.rows, theirs.digest),
    )


def with_output(epochs: list[Epoch], folder: Path) -> Measured:
    """What a side did, with the digest of the parquet files it wrote."""
    files = [str(path) for path in sorted(folder.rglob("*.parquet")) if "_temporary" not in path.parts]
    table = ds.dataset(files, format="parquet").to_table().to_pandas()
    table = table[sorted(table.columns)]
    hashes = pd.util.hash_pandas_object(table, index=False).to_numpy()
    return Measured(epochs=epochs, rows=len(table), digest=f"{int(hashes.sum()):x}")


def run_side(comparison: str, side: str, setting: Setting) -> Measured:
    """Run one side in a process of its own, with a JVM of its own, and watch its memory."""
    setting.work.mkdir(parents=True, exist_ok=True)
    log = setting.work / "log.txt"
    command = [sys.executable, "-m", "benchmarks.side", comparison, side]
    command += ["--scale", setting.scale, "--data", str(setting.data), "--work", str(setting.work)]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment())
        watch = watched(process)
    if process.returncode:
        msg = f"{comparison} {side} failed:\n{log.read_text(errors='replace')[-4000:]}"
        raise RuntimeError(msg)
    found = json.loads((setting.work / "measured.json").read_text())
    epochs = [Epoch(*epoch) for epoch in found["epochs"]]
    cpu = [watch.cpu_at(epoch.ended) for epoch in epochs]
    return Measured(
        epochs=epochs,
        rows=found["rows"],
        digest=found["digest"],
        memory=watch.peaks,
        cpu=cpu,
        figures=found["figures"],
    )


def environment() -> dict[str, str]:
    """What a side sees: workers are of the same Python as the driver."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def as_json(value: Any) -> Any:
    """A measured side or a line as plain values."""
    return dataclasses.asdict(value)
