"""What one side is told and what it leaves behind. Plain Python: it is also read where Millstream is not installed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

MASTER = "local[2]"
PARALLELISM = 2
FEW_EVENTS = 2000
TINY = "tiny"
"""The folder of a few events."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One query, its input and a folder of its own."""

    query: str
    events: int
    epoch_events: int
    """How many events an epoch or a batch covers."""
    file_events: int
    """How many events a file covers."""
    data: str
    """The files: a folder for each kind."""
    work: str
    """Checkpoint, output and answer of this side."""
    input: str = "files"
    """`files`, or `generator` for the side that has one."""
    jars: tuple[str, ...] = ()
    """What a side needs beside its packages."""

    def kind(self, kind: str) -> Path:
        """The folder of a kind."""
        return Path(self.data) / kind

    @property
    def ready(self) -> Setting:
        """The same query over a few events, by which a process gets ready: code is compiled, and workers run."""
        data, work = Path(self.data) / TINY, Path(self.work) / "ready"
        return dataclasses.replace(self, events=FEW_EVENTS, data=str(data), work=str(work))

    @property
    def checkpoint(self) -> Path:
        """Where the side keeps its state."""
        return Path(self.work) / "checkpoint"

    @property
    def output(self) -> Path:
        """Where the side writes rows."""
        return Path(self.work) / "output"

    @property
    def files_per_epoch(self) -> int:
        """How many files of each kind a batch covers."""
        return max(1, self.epoch_events // self.file_events)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a side did, on the wall clock; start-up lies before `began`."""

    began: float
    ended: float
    start_up: float = 0.0
    """Seconds between the two that are start-up all the same."""
    found: tuple[str, ...] | None = None
    """Rows and sums, when the side computed them itself."""
    notes: tuple[str, ...] = ()


def read_setting(path: Path) -> Setting:
    """The setting that the runner wrote."""
    content = json.loads(path.read_text())
    return Setting(**{**content, "jars": tuple(content["jars"])})


def write_json(value: Any, path: Path) -> None:
    """A setting or an answer, for the other process to read."""
    path.write_text(json.dumps(dataclasses.asdict(value)))


def read_answer(path: Path) -> Answer:
    """What a side left."""
    content = json.loads(path.read_text())
    found = None if content["found"] is None else tuple(content["found"])
    return Answer(**{**content, "found": found, "notes": tuple(content["notes"])})
