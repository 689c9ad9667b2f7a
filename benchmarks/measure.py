"""What is measured and how: epochs with their seconds, a digest of the output, peak memory of the process tree."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow.dataset as ds

Scale = Literal["small", "full"]
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY = 0.1


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


@dataclasses.dataclass(slots=True, kw_only=True)
class Measured:
    """What one side did."""

    epochs: list[tuple[int, float]]
    """Rows read and seconds of each epoch that read rows, in order."""
    rows: int = 0
    digest: str = ""
    """Of the output rows as a multiset."""
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    """Peak bytes by kind of process."""

    def rate(self, warm: int) -> float:
        """Rows a second over the epochs after the warm-up."""
        steady = self.epochs[warm:]
        return sum(rows for rows, _ in steady) / sum(seconds for _, seconds in steady)

    def period(self, warm: int) -> float:
        """The median seconds of an epoch after the warm-up."""
        return statistics.median(seconds for _, seconds in self.epochs[warm:])


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
        equal=(mine.rows, mine.digest) == (theirs.rows, theirs.digest),
    )


def with_output(epochs: list[tuple[int, float]], folder: Path) -> Measured:
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
        process = subprocess.Popen(command, stdout=file, stderr=file, env=_environment())
        peaks = _watched(process)
    if process.returncode:
        msg = f"{comparison} {side} failed:\n{log.read_text(errors='replace')[-4000:]}"
        raise RuntimeError(msg)
    found = json.loads((setting.work / "measured.json").read_text())
    epochs = [(rows, seconds) for rows, seconds in found["epochs"]]
    return Measured(epochs=epochs, rows=found["rows"], digest=found["digest"], memory=peaks)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def _watched(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """Peak resident bytes while the process runs: of the driver's Python, the JVM, all other processes, and the sum."""
    peaks: dict[str, int] = {}
    while process.poll() is None:
        now = _resident(process.pid)
        now["total"] = sum(now.values())
        peaks = {kind: max(peaks.get(kind, 0), now.get(kind, 0)) for kind in {*peaks, *now}}
        time.sleep(_EVERY)
    return peaks


def _resident(root: int) -> dict[str, int]:
    kinds = {"driver": 0, "jvm": 0, "workers": 0}
    for pid, name in _tree(root):
        kind = "driver" if pid == root else "jvm" if name == "java" else "workers"
        try:
            kinds[kind] += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended since it was listed
    return kinds


def _tree(root: int) -> list[tuple[int, str]]:
    """All processes below a process, and itself."""
    found: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, tail = (entry / "stat").read_text().rpartition(")")
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[int(entry.name)] = (int(tail.split()[1]), head.partition("(")[2])
    below = {root}
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in found.items() if parent in below} - below
        below |= more
        grown = bool(more)
    return [(pid, found[pid][1]) for pid in sorted(below) if pid in found]


def as_json(value: Any) -> Any:
    """A measured side or a line as plain values."""
    return dataclasses.asdict(value)
