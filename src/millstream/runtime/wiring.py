"""The senders of a task: one for each edge that leaves its level, and one more where late rows are read."""

from __future__ import annotations

from millstream.graph.step import LATE
from millstream.graph.stream_graph import StreamNode
from millstream.plan.epoch import EpochPlan, times_for
from millstream.plan.partitioned import PlannedEdge
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.exchange.cells import Outbox
from millstream.runtime.exchange.senders import (
    BroadcastSender,
    CanonicalSender,
    RowSender,
    Sender,
    Target,
    by_key,
    round_robin,
    same_subtask,
)
from millstream.runtime.operators.declaration import SendingEnd
from millstream.runtime.program import LevelProgram


def late_port(port: int) -> int:
    """The port on which senders deliver rows that came too late for a window."""
    return -2 - port


class TaskSenders:
    """The senders of one task and epoch; they are closed in the order in which they were opened."""

    def __init__(self, program: LevelProgram, plan: EpochPlan, ledger: Ledger, outbox: Outbox) -> None:
        self._program, self._plan, self._ledger, self._outbox = program, plan, ledger, outbox
        self._edges: dict[int, PlannedEdge] = {}
        self._payload_bytes = {edge.port: edge.payload_bytes for edge in program.deployment.edges}
        self._by_port: dict[int, Sender] = {}

    def open(self, planned: PlannedEdge) -> Sender:
        """The sender of an edge."""
        sender = self._sender(planned)
        if floats := self._program.float_keys.get(planned.port):
            sender = CanonicalSender(sender, floats)
        self._by_port[planned.port] = sender
        self._edges[planned.port] = planned
        return sender

    def close(self) -> None:
        """Put everything that senders still hold into the outbox."""
        for port, sender in self._by_port.items():
            edge = self._edges.get(port)
            if edge is not None:
                self._ledger.clock.enter(edge.edge.source, edge.edge.target)
            sender.close()
            if edge is not None:
                self._ledger.clock.leave()

    def vertex(self, port: int) -> str:
        """The vertex whose rows leave by a port."""
        # The port of late rows belongs to the edge whose rows they were.
        return self._edges[port if port in self._edges else late_port(port)].edge.source

    def _sender(self, planned: PlannedEdge) -> Sender:
        plan = self._program.deployment.plan
        target = Target(planned.port, planned.to_level, plan.parallelism, plan.key_groups)
        if planned.edge.partition == "broadcast":
            return BroadcastSender(target, self._outbox, self._payload_bytes[target.port])
        choosers = {
            "hash": lambda: by_key(planned.edge.keys, target),
            "single": lambda: by_key((), target),
            "rebalance": lambda: round_robin(target, self._outbox.task),
            "forward": lambda: same_subtask(target, self._outbox.task),
        }
        rows = RowSender(target, self._outbox, choosers[planned.edge.partition](), self._payload_bytes[target.port])
        return self._keyed_sender(planned, target, rows) if planned.edge.partition == "hash" else rows

    def _keyed_sender(self, planned: PlannedEdge, target: Target, rows: RowSender) -> Sender:
        """The sending half of the operator behind an edge, where it has one: less is sent than came."""
        open_sender = self._program.senders[planned.port]
        if open_sender is None:
            return rows
        node = self._program.node(planned.edge.target)
        return open_sender(
            SendingEnd(
                node=node,
                target=target,
                outbox=self._outbox,
                rows=rows,
                counts=self._ledger.count(node.id),
                times=times_for(self._plan, node.event_time),
                payload_bytes=self._payload_bytes[target.port],
                open_late=lambda: self._late_sender(node, target),
            )
        )

    def _late_sender(self, node: StreamNode, target: Target) -> Sender | None:
        if not any(e.edge.source_step == node.id and e.edge.output == LATE for e in self._program.edges):
            return None
        late_target = target._replace(port=late_port(target.port))
        late = RowSender(late_target, self._outbox, by_key(node.keys, target), self._payload_bytes[target.port])
        self._by_port[late_target.port] = late
        return late
