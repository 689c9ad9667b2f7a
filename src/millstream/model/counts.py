"""Row accounting: every row that enters a step leaves it, or is counted as filtered, late, skipped or failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec


class StepCounts(msgspec.Struct):
    """What became of a step's rows: `rows_in = passed + filtered + late + skipped + failed`.

    `rows_out` counts what the step emitted, which differs from `passed` for steps that change the number of rows.
    `refused` counts rows that such a step made and that do not fit its schema; its error policy decides about them too.
    """

    rows_in: int = 0
    passed: int = 0
    filtered: int = 0
    late: int = 0
    skipped: int = 0
    failed: int = 0
    rows_out: int = 0
    refused: int = 0

    def add(self, other: StepCounts) -> None:
        """Add another task's counts."""
        for name in StepCounts.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def is_balanced(self) -> bool:
        """Whether every row is accounted for."""
        return self.rows_in == self.passed + self.filtered + self.late + self.skipped + self.failed


Counts = dict[str, StepCounts]


def total(parts: Iterable[Mapping[str, StepCounts]]) -> Counts:
    """The sum over tasks or epochs, per step."""
    summed: Counts = {}
    for part in parts:
        for step, counts in part.items():
            summed.setdefault(step, StepCounts()).add(counts)
    return summed
