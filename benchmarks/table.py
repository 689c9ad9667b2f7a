"""The table that every benchmark ends with."""

from __future__ import annotations

import os
import platform

from rich.table import Table

from benchmarks.measure import Line

_WORDS = {True: "yes", False: "NO", None: ""}


def table_of(lines: list[Line], scale: str) -> Table:
    """All lines, with the scale in the title."""
    table = Table(title=f"benchmarks, scale {scale}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for heading in ("what", "unit", "ours", "rival", "against", "ratio", "target", "met", "CPU ratio", "equal rows"):
        table.add_column(heading, justify="right" if heading in {"ours", "rival", "ratio"} else "left")
    for line in lines:
        table.add_row(
            line.what,
            line.unit,
            _number(line.ours),
            _number(line.rival),
            line.rival_name,
            _number(line.ratio),
            line.target,
            _WORDS[line.met],
            _number(line.cpu_ratio),
            _WORDS[line.equal],
        )
    return table


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
