"""`python -m benchmarks connectors [--only NAME ...] [--scale S] [--seconds N]`: run, print one table, write JSON."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.connectors.bench import Bench
from benchmarks.measure import Line, as_json
from benchmarks.table import table_of

COMPARISONS = (
    "windowed_count",
    "to_parquet",
    "to_nothing",
    "latency",
    "table_to_parquet",
    "pages_to_parquet",
    "changes",
    "backlog",
    "overload",
)


def main(arguments: Sequence[str]) -> None:
    """Run the comparisons named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks connectors")
    parser.add_argument("--only", action="append", choices=COMPARISONS, metavar="NAME", help=", ".join(COMPARISONS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of a full run")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long latency and overload are measured")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    given = parser.parse_args(arguments)
    console, lines = Console(width=170), list[Line]()
    path = given.results / f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-connectors.json"
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        bench = Bench(Path(folder), console, scale=given.scale, seconds=given.seconds)
        try:
            for name in given.only or COMPARISONS:
                lines += importlib.import_module(f"benchmarks.connectors.{name}").measure(bench)
                _write(path, given.scale, lines)
        finally:
            bench.close()
    console.print(table_of(lines, f"{given.scale:g}"))
    console.print(f"load at the end {os.getloadavg()[1]:.1f}; written to {path}")


def _write(path: Path, scale: float, lines: Sequence[Line]) -> None:
    """Everything so far, so that an interrupted run leaves what it has."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    content = {"at": now, "scale": scale, "cores": os.cpu_count(), "load": os.getloadavg()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**content, "lines": [{**as_json(line), "met": line.met} for line in lines]}, indent=1))
