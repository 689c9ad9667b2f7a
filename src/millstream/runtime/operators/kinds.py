"""Which operator and which sender serve a keyed node: one table for all engines."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.graph.operations.aggregate import KeyedAggregate, Reduce
from millstream.graph.operations.join import JOINS, Join, TemporalJoin, WindowJoin
from millstream.graph.operations.pattern import Pattern
from millstream.graph.operations.process import CoProcess, Process
from millstream.graph.operations.rank import Deduplicate, TopN, WindowRank
from millstream.graph.operations.rules import Patterns
from millstream.graph.operations.window import Window
from millstream.graph.stream_graph import StreamNode
from millstream.graph.windows.window import WindowSpec
from millstream.model.counts import StepCounts
from millstream.plan.epoch import EpochTimes
from millstream.records.batch import Batch
from millstream.runtime.bad_records import failure
from millstream.runtime.exchange.cells import BEFORE, Sender
from millstream.runtime.exchange.combining import Binner
from millstream.runtime.operators.aggregate.operator import AggregateOperator, accumulators_of, aggregate_columns
from millstream.runtime.operators.aggregate.running import RunningOperator, fold_of, running_slots
from millstream.runtime.operators.contract import KeyedOperator
from millstream.runtime.operators.join.sides import join_stores
from millstream.runtime.operators.join.streams import JoinOperator
from millstream.runtime.operators.join.temporal import TemporalJoinOperator
from millstream.runtime.operators.join.windows import WindowJoinOperator
from millstream.runtime.operators.pattern.operator import PatternOperator, pattern_stores
from millstream.runtime.operators.pattern.rules import RulesOperator, rule_stores
from millstream.runtime.operators.process.broadcast import BroadcastOperator, broadcast_stores
from millstream.runtime.operators.process.co_process import CoProcessOperator
from millstream.runtime.operators.process.operator import ProcessOperator
from millstream.runtime.operators.rank.first_rows import FirstRowOperator, seen_stores
from millstream.runtime.operators.rank.operator import RankOperator, ranked_stores
from millstream.runtime.operators.rank.windows import WindowRankOperator, waiting_stores
from millstream.runtime.operators.window.bins import WindowAggregateOperator, window_columns
from millstream.runtime.operators.window.clock_bins import ClockWindowOperator
from millstream.runtime.operators.window.contents import Contents
from millstream.runtime.operators.window.grid import grid_of
from millstream.runtime.operators.window.row_windows import RowWindowOperator
from millstream.runtime.operators.window.sessions import (
    SessionAggregateOperator,
    are_columnar_sessions,
    session_columns,
)
from millstream.runtime.operators.window.triggered.operator import TriggeredWindowOperator, triggered_slots
from millstream.state.slots import Store, Stored, process_slots

__all__ = ["accumulators_of", "combines", "keyed_operator", "ranks", "stores_of", "window_binner"]


def keyed_operator(node: StreamNode, *, key_groups: int, page_bytes: int) -> KeyedOperator:  # noqa: PLR0912
    """The operator of a keyed node."""
    operation = node.operation
    match operation:
        case KeyedAggregate(emit="row") | Reduce():
            return RunningOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case KeyedAggregate():
            return AggregateOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Process():
            return ProcessOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case CoProcess() if node.inputs[1].partition == "broadcast":
            return BroadcastOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case CoProcess():
            return CoProcessOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Join():
            return JoinOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Deduplicate(is_first_come=True):
            return FirstRowOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case TopN() | Deduplicate():
            return RankOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case WindowRank():
            return WindowRankOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case TemporalJoin():
            return TemporalJoinOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case WindowJoin():
            return WindowJoinOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Window(window=WindowSpec(time="processing")) if combines(node):
            return ClockWindowOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Window() if combines(node):
            return WindowAggregateOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Window(is_triggered=True):
            return TriggeredWindowOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Window() if are_columnar_sessions(node):
            return SessionAggregateOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Window():
            return RowWindowOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Pattern():
            return PatternOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case Patterns():
            return RulesOperator(node, key_groups=key_groups, page_bytes=page_bytes)
        case _:
            msg = f"{operation.kind} is not a keyed operation"
            raise AssertionError(msg)


def stores_of(node: StreamNode) -> tuple[Store, ...]:
    """Everything that the operator of a keyed node keeps."""
    if isinstance(node.operation, JOINS):
        return join_stores(node)
    if isinstance(node.operation, Deduplicate) and node.operation.is_first_come:
        return seen_stores(node)
    if isinstance(node.operation, (TopN, Deduplicate)):
        return ranked_stores(node)
    if isinstance(node.operation, WindowRank):
        return waiting_stores(node)
    if isinstance(node.operation, CoProcess) and node.inputs[1].partition == "broadcast":
        return broadcast_stores(node)
    if isinstance(node.operation, Pattern):
        return pattern_stores(node)
    if isinstance(node.operation, Patterns):
        return rule_stores(node)
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    return (Store(uid=node.uid, content=stored_by(node), keys=node.input_schema.select(node.keys)),)


def stored_by(node: StreamNode) -> Stored:
    """What the operator of a keyed node stores: the slots of its entries, or the columns of its rows."""
    operation = node.operation
    match operation:
        case KeyedAggregate(emit="row") | Reduce():
            return running_slots(fold_of(node))
        case KeyedAggregate():
            return aggregate_columns(node, accumulators_of(node))
        case Process() | CoProcess():
            return process_slots(operation)
        case Window() if combines(node):
            return window_columns(node, accumulators_of(node))
        case Window(is_triggered=True):
            return triggered_slots(node)
        case Window() if are_columnar_sessions(node):
            return session_columns(node, accumulators_of(node))
        case Window():
            return Contents(node).slots
        case _:
            msg = f"{operation.kind} is not a keyed operation"
            raise AssertionError(msg)


def combines(node: StreamNode) -> bool:
    """Whether rows are combined before the shuffle."""
    operation = node.operation
    if isinstance(operation, KeyedAggregate):
        return operation.emit != "row"
    if not isinstance(operation, Window) or operation.has_options:
        return False
    return bool(operation.aggregates) and operation.window.kind in {"tumbling", "sliding", "cumulative"}


def ranks(node: StreamNode) -> bool:
    """Whether rows that cannot stay are left out before the shuffle."""
    operation = node.operation
    return isinstance(operation, TopN) or (isinstance(operation, Deduplicate) and not operation.is_first_come)


def window_binner(node: StreamNode, times: EpochTimes, counts: StepCounts, late: Sender | None) -> Binner | None:
    """Gives each row its bin; rows whose last window is gone are counted and set aside."""
    operation = node.operation
    if not isinstance(operation, Window):
        return None
    grid, lateness = grid_of(operation.window), operation.lateness
    if not operation.window.is_event_timed:
        start = grid.start_of(times.now)
        return lambda batch, _: (batch, pa.array(np.full(batch.num_rows, start, np.int64)))

    def binned(batch: Batch, phase: int) -> tuple[Batch, pa.Array | None]:
        if batch.times is None or batch.times.null_count:
            raise failure(node.id, f"a batch of {batch.num_rows} rows", "a row without event time reached a window")
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
