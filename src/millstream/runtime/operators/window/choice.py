"""Which operator serves which windows. Each condition leaves out what the others take, so their order decides nothing."""

from __future__ import annotations

from millstream.graph.operations.window import Window
from millstream.graph.stream_graph import StreamNode

_BINNED = frozenset({"tumbling", "sliding", "cumulative"})
_IN_ORDER = frozenset({"first", "last"})
"""Aggregates that depend on the order in which rows come, which sorting loses."""


def window_of(node: StreamNode) -> Window:
    """The operation of a window node."""
    assert isinstance(node.operation, Window), f"{node.id!r} is no window"
    return node.operation


def is_binned(node: StreamNode) -> bool:
    """Aggregates over windows of event time that lie on a grid and fire by default."""
    return is_on_grid(window_of(node)) and window_of(node).window.time == "event"


def is_binned_by_clock(node: StreamNode) -> bool:
    """The same over windows of the clock."""
    return is_on_grid(window_of(node)) and window_of(node).window.time == "processing"


def is_triggered(node: StreamNode) -> bool:
    """Windows with a trigger, evictor, pane or state, and those of the clock that are not aggregated on a grid."""
    return window_of(node).is_triggered and not is_on_grid(window_of(node))


def is_merged_session(node: StreamNode) -> bool:
    """Aggregates over sessions that fire by default, where the order of their rows does not matter."""
    operation = window_of(node)
    if operation.is_triggered or operation.window.kind != "session":
        return False
    return bool(operation.aggregates) and not any(each.kind in _IN_ORDER for _, each in operation.aggregates)


def goes_row_by_row(node: StreamNode) -> bool:
    """Windows of event time that fire by default, and are neither binned nor merged as sessions."""
    operation = window_of(node)
    return not (operation.is_triggered or is_on_grid(operation) or is_merged_session(node))


def is_on_grid(operation: Window) -> bool:
    """Whether rows can be combined by slide-long bins before the shuffle."""
    return bool(operation.aggregates) and not operation.has_options and operation.window.kind in _BINNED
