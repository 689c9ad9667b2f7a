"""What a comparison of connectors has at hand: servers, started when first asked for, and sides in processes of their own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer

from benchmarks.measure import Epoch, Measured, environment
from benchmarks.process_tree import Watch, kill_tree, watched

# Several segments and no fsync, as a broker with replicas has it; what a benchmark writes is not kept.
_BROKER = {"log.segment.bytes": str(256 << 20), "num.network.threads": "2"}
_DATABASE = {"wal_level": "logical", "max_replication_slots": 8, "max_wal_senders": 8, "max_wal_size": "4GB"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SideSetting:
    """What one side is told: where it may write, and the facts of its comparison."""

    work: Path
    facts: dict[str, Any]

    @property
    def output(self) -> Path:
        return self.work / "output"

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A side that ran."""

    measured: Measured
    watch: Watch
    work: Path


class Bench:
    """One run of the comparisons."""

    def __init__(self, folder: Path, console: Console, *, scale: float, seconds: float) -> None:
        self.folder, self.console, self.scale, self.seconds = folder, console, scale, seconds
        self._open = contextlib.ExitStack()
        self._sides = 0

    def rows(self, full: int, *, least: int = 100) -> int:
        """A number of rows at this scale."""
        return max(least, int(full * self.scale))

    @property
    def epochs(self) -> tuple[int, int]:
        """How many epochs a comparison of rates reads, and how many of them are warm-up: JVMs need several."""
        return (12, 5) if self.scale >= 0.01 else (3, 1)

    @functools.cached_property
    def broker(self) -> KafkaServer:
        server = KafkaServer(settings=_BROKER).start()
        self._open.callback(server.stop)
        return server

    @functools.cached_property
    def database(self) -> PostgresServer:
        server = PostgresServer(settings=_DATABASE).start()
        self._open.callback(server.stop)
        return server

    def close(self) -> None:
        self._open.close()

    @contextlib.contextmanager
    def running(
        self, module: str, side: str, *, python: Path | None = None, **facts: Any
    ) -> Iterator[tuple[Any, Path]]:
        """A side that has been started, and its folder."""
        self._sides += 1
        work = self.folder / f"{self._sides:03d}-{module}-{side}"
        work.mkdir(parents=True)
        (work / "facts.json").write_text(json.dumps(facts))
        command = [str(python or sys.executable), "-m", "benchmarks.connectors.side", module, side, str(work)]
        with (work / "log.txt").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())
        try:
            yield process, work
        except RuntimeError as problem:
            problem.add_note(f"{work.name} said last:\n{_last_words(work)}")
            raise
        finally:
            kill_tree(process)

    def side(self, module: str, side: str, *, python: Path | None = None, **facts: Any) -> Ran:
        """Run a side to its end and watch it."""
        with self.running(module, side, python=python, **facts) as (process, work):
            watch = watched(process)
        ran = self.result(process, work, watch)
        seconds = ", ".join(f"{epoch.seconds:.2f}" for epoch in ran.measured.epochs[:10])
        self.console.print(f"{module} {side}: {len(ran.measured.epochs)} epochs ({seconds} s)")
        return ran

    def result(self, process: Any, work: Path, watch: Watch) -> Ran:
        """What a side that has ended left behind."""
        if process.returncode:
            msg = f"{work.name} failed:\n{_last_words(work)}"
            raise RuntimeError(msg)
        found = json.loads((work / "measured.json").read_text())
        epochs = [Epoch(*epoch) for epoch in found["epochs"]]
        cpu = [watch.cpu_at(epoch.ended) for epoch in epochs]
        measured = Measured(epochs=epochs, memory=watch.peaks, cpu=cpu, figures=found.get("figures", {}))
        return Ran(measured=measured, watch=watch, work=work)


def _last_words(work: Path) -> str:
    return (work / "log.txt").read_text(errors="replace")[-4000:]
