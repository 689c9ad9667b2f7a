"""Draws `docs/reference/metadata.md` from the code: the states of a run, and the tables of the service."""

from __future__ import annotations

from pathlib import Path

from millstream.control.lifecycle.states import FINAL, MOVES
from millstream.control.metadata.tables import all as _tables  # noqa: F401  # so that every table is known
from millstream.control.metadata.tables.columns import SCHEMA

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "metadata.md"
_INTRO = """# States and tables of the service

Drawn from the code by `python scripts/control_pictures.py`; a test sees that it is current.

## States of a run

Every move is a compare-and-set on state and token, with an event that says why.
"""


def states() -> str:
    """The state machine, as Mermaid."""
    moves = [f"    {before} --> {after}" for before, targets in MOVES.items() for after in sorted(targets)]
    ends = [f"    {status} --> [*]" for status in sorted(FINAL)]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> SCHEDULED", *moves, *ends, "```"])


def tables() -> str:
    """Tables with their columns and references, as Mermaid."""
    lines = ["```mermaid", "erDiagram"]
    for table in sorted(SCHEMA.tables.values(), key=lambda each: each.name):
        lines.append(f"    {table.name} {{")
        for column in table.columns:
            kind = type(column.type).__name__
            mark = " PK" if column.primary_key else " FK" if column.foreign_keys else ""
            lines.append(f"        {kind} {column.name}{mark}")
        lines.append("    }")
        pointed = {(key.column.table.name, column.name) for column in table.columns for key in column.foreign_keys}
        lines += [f"    {target} ||--o{{ {table.name} : {name}" for target, name in sorted(pointed)]
    return "\n".join([*lines, "```"])


def page() -> str:
    """The whole page."""
    return f"{_INTRO}\n{states()}\n\n## Tables\n\n{tables()}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
