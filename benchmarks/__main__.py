"""`python -m benchmarks [COMPARISON ...] [--scale small|full]`: run, print one table, write JSON to bench-results/.

`python -m benchmarks connectors --help` is about those that need servers.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.connectors.command import main as compare_connectors
from benchmarks.measure import Line, Measured, Setting, as_json, run_side
from benchmarks.table import table_of

COMPARISONS = (
    "keyed_aggregate",
    "memory",
    "process_function",
    "fused_maps",
    "filter_files",
    "empty_epoch",
    "growth",
    "sliding",
    "open_windows",
    "savepoint",
    "guarantees",
    "recovery",
    "state_backend",
    "large_state",
    "harness",
    "start",
    "startup",
)


def main() -> None:
    """Run the comparisons named on the command line, or all; `connectors` has options of its own."""
    if sys.argv[1:2] == ["connectors"]:
        compare_connectors(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("comparisons", nargs="*", metavar="COMPARISON", help=", ".join(COMPARISONS))
    parser.add_argument("--scale", choices=["small", "full"], default="full")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    given = parser.parse_args()
    unknown = sorted(set(given.comparisons) - set(COMPARISONS))
    if unknown:
        parser.error(f"unknown comparison {', '.join(unknown)}; known: {', '.join(COMPARISONS)}")
    console = Console(width=150)
    measured: dict[tuple[str, str], Measured] = {}
    lines: list[Line] = []
    path = given.results / f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-{given.scale}.json"
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        for name in given.comparisons or COMPARISONS:
            lines += _compared(name, given.scale, Path(folder), measured, console)
            _write(path, given.scale, lines, measured)
    console.print(table_of(lines, given.scale))
    console.print(f"written to {path}")


def _compared(
    name: str, scale: Any, folder: Path, measured: dict[tuple[str, str], Measured], console: Console
) -> list[Line]:
    """The lines of one comparison; sides that ran before in this run are not run again."""
    module = importlib.import_module(f"benchmarks.{name}")
    for owner, side in module.USES:
        if (owner, side) not in measured:
            setting = Setting(scale=scale, data=folder / "data", work=folder / owner / side)
            measured[owner, side] = found = run_side(owner, side, setting)
            seconds = ", ".join(f"{epoch.seconds:.2f}" for epoch in found.epochs[:8])
            console.print(f"{owner} {side}: {len(found.epochs)} epochs ({seconds} s)")
    found_lines: list[Line] = module.lines({side: measured[owner, side] for owner, side in module.USES}, scale)
    return found_lines


def _write(path: Path, scale: str, lines: list[Line], measured: dict[tuple[str, str], Measured]) -> None:
    """Everything so far; called after each comparison, so that an interrupted run leaves what it has."""
    content = {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "scale": scale,
        "cores": os.cpu_count(),
        "lines": [{**as_json(line), "met": line.met} for line in lines],
        "sides": {f"{owner}.{side}": as_json(found) for (owner, side), found in measured.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
