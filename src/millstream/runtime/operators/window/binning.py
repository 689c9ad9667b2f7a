"""The sending half of binned windows: rows get their bin, late ones are set aside, the others are combined."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.records.batch import Batch
from millstream.runtime.bad_records import failure
from millstream.runtime.exchange.cells import BEFORE
from millstream.runtime.exchange.combining import Binner, CombiningSender
from millstream.runtime.exchange.senders import Sender
from millstream.runtime.operators.aggregate.operator import accumulators_of
from millstream.runtime.operators.declaration import SendingEnd
from millstream.runtime.operators.window.choice import window_of
from millstream.runtime.operators.window.grid import grid_of


def binned_sender(end: SendingEnd) -> Sender:
    """Combines rows per key and bin of their event time."""
    return _combining(end, _binner(end))


def clock_sender(end: SendingEnd) -> Sender:
    """Combines rows per key, in the bin of the epoch's clock."""
    start = grid_of(window_of(end.node).window).start_of(end.times.now)
    return _combining(end, lambda batch, _: (batch, pa.array(np.full(batch.num_rows, start, np.int64))))


def _combining(end: SendingEnd, binner: Binner) -> Sender:
    return CombiningSender(end.target, end.outbox, end.node.keys, accumulators_of(end.node), end.counts, binner)


def _binner(end: SendingEnd) -> Binner:
    """Gives each row its bin; rows whose last window is gone are counted and set aside."""
    operation, step, times, counts = window_of(end.node), end.node.id, end.times, end.counts
    grid, lateness, late = grid_of(operation.window), operation.lateness, end.open_late()

    def binned(batch: Batch, phase: int) -> tuple[Batch, pa.Array | None]:
        if batch.times is None or batch.times.null_count:
            raise failure(step, f"a batch of {batch.num_rows} rows", "a row without event time reached a window")
        bins = grid.starts_of(np.asarray(batch.times))
        watermark = times.before if phase == BEFORE else times.watermark
        is_late = grid.last_ends(bins) - 1 + lateness <= watermark
        if not is_late.any():
            return batch, pa.array(bins)
        if late is not None:
            late.send(batch.filter(pa.array(is_late)), phase)
        counts.late += int(np.count_nonzero(is_late))
        return batch.filter(pa.array(~is_late)), pa.array(bins[~is_late])

    return binned
