"""Which operator serves a keyed node: one table for all engines. A new operator is one line here."""

from __future__ import annotations

from millstream.errors import InvalidPlan
from millstream.graph.stream_graph import StreamNode
from millstream.registry import load
from millstream.runtime.operators.aggregate.operator import AGGREGATE
from millstream.runtime.operators.aggregate.running import AGGREGATE_BY_ROW, REDUCE
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.join.streams import JOIN
from millstream.runtime.operators.join.temporal import TEMPORAL_JOIN
from millstream.runtime.operators.join.windows import WINDOW_JOIN
from millstream.runtime.operators.pattern.operator import PATTERN
from millstream.runtime.operators.pattern.rules import PATTERN_RULES
from millstream.runtime.operators.process.broadcast import BROADCAST_PROCESS
from millstream.runtime.operators.process.co_process import CO_PROCESS
from millstream.runtime.operators.process.operator import PROCESS
from millstream.runtime.operators.rank.first_rows import FIRST_ROW
from millstream.runtime.operators.rank.operator import DEDUPLICATE, TOP_N
from millstream.runtime.operators.rank.windows import WINDOW_RANK
from millstream.runtime.operators.sample.operator import SAMPLE
from millstream.runtime.operators.window.bins import BINNED_WINDOW
from millstream.runtime.operators.window.clock_bins import CLOCK_WINDOW
from millstream.runtime.operators.window.row_windows import ROW_WINDOW
from millstream.runtime.operators.window.sessions import MERGED_SESSION
from millstream.runtime.operators.window.triggered.operator import TRIGGERED_WINDOW
from millstream.state.slots import Store

KINDS: tuple[KeyedKind, ...] = (
    AGGREGATE,
    AGGREGATE_BY_ROW,
    REDUCE,
    PROCESS,
    CO_PROCESS,
    BROADCAST_PROCESS,
    JOIN,
    TEMPORAL_JOIN,
    WINDOW_JOIN,
    FIRST_ROW,
    DEDUPLICATE,
    TOP_N,
    WINDOW_RANK,
    SAMPLE,
    BINNED_WINDOW,
    CLOCK_WINDOW,
    MERGED_SESSION,
    ROW_WINDOW,
    TRIGGERED_WINDOW,
    PATTERN,
    PATTERN_RULES,
)
"""At most one of them fits a node, so that their order decides nothing."""


def kind_of(node: StreamNode) -> KeyedKind:
    """The operator of a keyed node: one of the table, or the one that an operation of another package names."""
    for kind in KINDS:
        if kind.fits(node):
            return kind
    reference = node.operation.operator
    if not reference:
        msg = f"nothing runs the keyed operation {node.operation.kind!r}"
        hint = "list its KeyedKind in millstream.runtime.operators.kinds, or name it: operator = 'package.module:KIND'"
        raise InvalidPlan(msg, step=node.id, found=type(node.operation).__name__, hint=hint)
    named = load(reference)
    if not isinstance(named, KeyedKind) or not named.fits(node):
        msg = f"what the operation {node.operation.kind!r} names as its operator does not serve it"
        raise InvalidPlan(msg, step=node.id, found=reference, hint="name a KeyedKind that takes the operation")
    return named


def stores_of(node: StreamNode) -> tuple[Store, ...]:
    """Everything that the operator of a keyed node keeps."""
    return kind_of(node).stores(node)
