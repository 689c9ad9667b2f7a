"""What each keyed operator says about itself, once: which nodes it serves, what it keeps, and how rows travel to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from millstream.graph.stream_graph import StreamNode
from millstream.model.counts import StepCounts
from millstream.plan.epoch import EpochTimes
from millstream.runtime.exchange.cells import Outbox
from millstream.runtime.exchange.senders import RowSender, Sender, Target
from millstream.runtime.operators.contract import KeyedOperator
from millstream.state.layout import columns_ddl
from millstream.state.slots import Store

Settings = dict[str, Any]


class OpensOperator(Protocol):
    """Compiles a keyed node."""

    def __call__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> KeyedOperator:
        """Its operator, which serves all epochs."""
        ...


class SendingEnd(NamedTuple):
    """The near end of an edge into a keyed node, for one task and epoch: what its sender is made of."""

    node: StreamNode
    target: Target
    outbox: Outbox
    rows: RowSender
    """Sends rows as they are, to the owners of their keys."""
    counts: StepCounts
    times: EpochTimes
    payload_bytes: int
    open_late: Callable[[], Sender | None]
    """Gives the sender of rows that came too late; `None` where nobody reads them."""


def always(_: StreamNode) -> bool:
    """Every node of an operation."""
    return True


def no_settings(_: StreamNode) -> Settings:
    """What is stored depends on nothing but its types."""
    return {}


def row_settings(node: StreamNode) -> Settings:
    """What is stored depends on the columns of the rows."""
    assert node.input_schema is not None, f"keyed step {node.id!r} has no input"
    return {"row": columns_ddl(node.input_schema)}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedKind:
    """One keyed operator: everything that tasks, layouts and savepoints must know of it."""

    takes: type
    """The class of its operation."""
    when: Callable[[StreamNode], bool] = always
    """Which of the nodes of that operation it serves, where several operators share them."""
    operator: OpensOperator
    stores: Callable[[StreamNode], tuple[Store, ...]]
    sender: Callable[[SendingEnd], Sender] | None = None
    """How rows are combined or sorted out before the shuffle; `None`: they are sent as they are."""
    settings: Callable[[StreamNode], Settings] = no_settings
    """What stored content depends on beside its types; stands in savepoints."""
    keeps_key_form: bool = False
    """Whether keys that have several forms of a value reach it as they came, because it compares them by value."""

    def fits(self, node: StreamNode) -> bool:
        """Whether it serves a node."""
        return isinstance(node.operation, self.takes) and self.when(node)
