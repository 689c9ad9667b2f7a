"""A batch of rows with their event times, as it travels through chains and exchanges."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.schema import HIDDEN

TIME = HIDDEN + "time"
"""Hidden column of event times (milliseconds) in payloads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Rows and, once event time is known, one timestamp in milliseconds per row."""

    rows: pa.RecordBatch
    times: pa.Int64Array | None = None

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        count: int = self.rows.num_rows
        return count

    def filter(self, mask: pa.BooleanArray) -> Batch:
        """The rows where the mask is true."""
        return Batch(self.rows.filter(mask), None if self.times is None else self.times.filter(mask))

    def take(self, indices: npt.NDArray[np.int64]) -> Batch:
        """The rows at these places, in this order."""
        chosen = pa.array(indices)
        return Batch(self.rows.take(chosen), None if self.times is None else self.times.take(chosen))

    def slice(self, start: int, length: int) -> Batch:
        """Consecutive rows, without a copy."""
        return Batch(self.rows.slice(start, length), None if self.times is None else self.times.slice(start, length))

    def with_time_column(self) -> pa.RecordBatch:
        """One record batch that carries the event times as a hidden column."""
        if self.times is None:
            return self.rows
        return self.rows.append_column(TIME, self.times)


def joined(batches: list[Batch]) -> Batch:
    """The rows of batches that either all have event times or all have none."""
    if len(batches) == 1:
        return batches[0]
    times = [batch.times for batch in batches if batch.times is not None]
    return Batch(pa.concat_batches([batch.rows for batch in batches]), pa.concat_arrays(times) if times else None)


def from_table(table: pa.Table) -> Batch:
    """Undo `with_time_column` for rows that came through an exchange."""
    rows = table.combine_chunks().to_batches()
    batch = (
        rows[0]
        if rows
        else pa.RecordBatch.from_arrays([pa.array([], f.type) for f in table.schema], schema=table.schema)
    )
    if TIME not in table.schema.names:
        return Batch(batch)
    place = table.schema.get_field_index(TIME)
    return Batch(batch.remove_column(place), batch.column(place))


def event_times(column: pa.Array) -> pa.Int64Array:
    """A timestamp column, or a long of milliseconds, as milliseconds since 1970."""
    if pa.types.is_integer(column.type):
        return column
    micros = pc.cast(column, pa.int64())
    # Floor, not truncation: instants before 1970 must not jump a millisecond ahead.
    values = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    return pa.array(values, pa.int64(), mask=np.asarray(micros.is_null()))
