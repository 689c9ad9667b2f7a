"""Which operator and which sender serve a keyed node: one table for all engines."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.graph.step import KeyedAggregate, Process, Reduce, Window
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.aggregates import AggregateOperator, accumulators_of
from millstream.runtime.batch import Batch
from millstream.runtime.combine import Binner, bins_of
from millstream.runtime.counts import StepCounts
from millstream.runtime.epoch import EpochTimes
from millstream.runtime.exchange import BEFORE, Sender
from millstream.runtime.keyed import KeyedOperator
from millstream.runtime.policy import failure
from millstream.runtime.process import ProcessOperator
from millstream.runtime.reduce import AggregateFold, ReduceFold, RunningOperator
from millstream.runtime.row_windows import RowWindowOperator
from millstream.runtime.windows import WindowAggregateOperator

__all__ = ["accumulators_of", "combines", "keyed_operator", "window_binner"]


def keyed_operator(node: StreamNode, *, key_groups: int, page_bytes: int) -> KeyedOperator:
    """The operator of a keyed node."""
    operation = node.operation
    match operation:
        case KeyedAggregate(emit="row"):
            return RunningOperator(node, AggregateFold(node), key_groups=key_groups, page_bytes=page_bytes)
        case KeyedAggregate():
            return AggregateOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Reduce():
            return RunningOperator(node, ReduceFold(node), key_groups=key_groups, page_bytes=page_bytes)
        case Process():
            return ProcessOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Window() if combines(node):
            return WindowAggregateOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Window():
            return RowWindowOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case _:
            msg = f"{operation.kind} is not a keyed operation"
            raise AssertionError(msg)


def combines(node: StreamNode) -> bool:
    """Whether rows are combined before the shuffle."""
    operation = node.operation
    if isinstance(operation, KeyedAggregate):
        return operation.emit != "row"
    return isinstance(operation, Window) and bool(operation.aggregates) and operation.window.kind != "session"


def window_binner(node: StreamNode, times: EpochTimes, counts: StepCounts, late: Sender | None) -> Binner | None:
    """Gives each row its bin; rows whose last window is gone are counted and set aside."""
    operation = node.operation
    if not isinstance(operation, Window):
        return None
    window, lateness = operation.window, operation.lateness

    def binned(batch: Batch, phase: int) -> tuple[Batch, pa.Array | None]:
        if batch.times is None or batch.times.null_count:
            raise failure(node.id, f"a batch of {batch.num_rows} rows", "a row without event time reached a window")
        bins = bins_of(batch.times, window.slide, window.offset)
        watermark = times.before if phase == BEFORE else times.watermark
        is_late = bins + window.size - 1 + lateness <= watermark
        if not is_late.any():
            return batch, pa.array(bins)
        if late is not None:
            late.send(batch.filter(pa.array(is_late)), phase)
        counts.late += int(np.count_nonzero(is_late))
        return batch.filter(pa.array(~is_late)), pa.array(bins[~is_late])

    return binned
