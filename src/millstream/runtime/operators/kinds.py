"""Which operators serve a keyed operation: one table for all engines. A new operator is one line here.

They are named, as connectors are: a process loads the operators of its job, and not the eighty modules of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from millstream.errors import InvalidPlan
from millstream.graph.operation import Operation
from millstream.graph.operations.aggregate import ChangingAggregate, KeyedAggregate, Reduce
from millstream.graph.operations.changes import Normalize
from millstream.graph.operations.join import Join, TemporalJoin, WindowJoin
from millstream.graph.operations.pattern import MatchPattern
from millstream.graph.operations.process import CoProcess, Process
from millstream.graph.operations.rank import Deduplicate, TopN, WindowRank
from millstream.graph.operations.rules import Patterns
from millstream.graph.operations.sample import Sample
from millstream.graph.operations.window import Window
from millstream.graph.stream_graph import StreamNode
from millstream.registry import load
from millstream.runtime.operators.declaration import KeyedKind
from millstream.state.slots import Store

KINDS: dict[type[Operation], tuple[str, ...]] = {
    KeyedAggregate: ("aggregate.operator:AGGREGATE", "aggregate.running:AGGREGATE_BY_ROW"),
    ChangingAggregate: ("aggregate.changing:CHANGING_AGGREGATE",),
    Normalize: ("normalize.operator:NORMALIZE",),
    Reduce: ("aggregate.running:REDUCE",),
    Process: ("process.operator:PROCESS",),
    CoProcess: ("process.co_process:CO_PROCESS", "process.broadcast:BROADCAST_PROCESS"),
    Join: ("join.streams:JOIN",),
    TemporalJoin: ("join.temporal:TEMPORAL_JOIN",),
    WindowJoin: ("join.windows:WINDOW_JOIN",),
    TopN: ("rank.operator:TOP_N",),
    Deduplicate: ("rank.operator:DEDUPLICATE", "rank.first_rows:FIRST_ROW"),
    WindowRank: ("rank.windows:WINDOW_RANK",),
    Sample: ("sample.operator:SAMPLE",),
    Window: (
        *("window.bins:BINNED_WINDOW", "window.clock_bins:CLOCK_WINDOW", "window.sessions:MERGED_SESSION"),
        *("window.row_windows:ROW_WINDOW", "window.triggered.operator:TRIGGERED_WINDOW"),
    ),
    MatchPattern: ("pattern.operator:PATTERN",),
    Patterns: ("pattern.rules:PATTERN_RULES",),
}
"""By operation, the `KeyedKind`s that share its nodes. At most one of them fits a node, so that their order decides nothing."""


def kinds_of(operation: type[Operation]) -> Iterator[KeyedKind]:
    """Our operators for an operation, or for the nearest of ours that it derives from."""
    nearest: type = next((base for base in operation.__mro__ if base in KINDS), operation)
    for place in KINDS.get(nearest, ()):
        yield load(f"{__package__}.{place}")


def kind_of(node: StreamNode) -> KeyedKind:
    """The operator of a keyed node: one of the table, or the one that an operation of another package names."""
    for kind in kinds_of(type(node.operation)):
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
