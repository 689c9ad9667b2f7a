"""Rows of dead letters that a step is to take again: as Arrow, with hidden columns for what is known of each letter."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from millstream.model.schema import HIDDEN
from millstream.records.batch import TIME, Batch, from_table

LETTER = HIDDEN + "letter"
"""Hidden column: the id of the letter."""
ORIGIN = HIDDEN + "origin"
"""Hidden column: what the origin of the letter is to be, if the row fails again."""


class ReplayedRows(NamedTuple):
    """Rows, and for each one the letter it comes from and the origin of the next one."""

    batch: Batch
    letters: list[str]
    origins: list[str]

    def table(self) -> pa.Table:
        """One table that holds all of it."""
        table = pa.Table.from_batches([self.batch.with_time_column()])
        table = table.append_column(LETTER, pa.array(self.letters, pa.string()))
        return table.append_column(ORIGIN, pa.array(self.origins, pa.string()))


def replayed_rows(table: pa.Table) -> ReplayedRows:
    """Undo `table()`."""
    letters, origins = (table.column(name).to_pylist() for name in (LETTER, ORIGIN))
    batch = from_table(table.drop_columns([LETTER, ORIGIN]))
    if batch.times is not None and batch.times.null_count == batch.num_rows:
        batch = Batch(batch.rows)
    return ReplayedRows(batch, letters, origins)


def row_columns(table: pa.Table) -> list[str]:
    """The columns of the rows themselves."""
    return [name for name in table.column_names if name not in {TIME, LETTER, ORIGIN}]
