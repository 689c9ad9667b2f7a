"""The row of a node: who it is, what it offers, and when it was last heard of."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal, NamedTuple

from sqlalchemy import Row, case, select, update

from millstream.control.act import Act
from millstream.control.lifecycle.states import OWNED
from millstream.control.metadata.tables.nodes import node
from millstream.control.metadata.tables.runs import execution
from millstream.control.metadata.upserts import insert_into
from millstream.control.refusals import StateConflict, UnknownName

NodeState = Literal["ACTIVE", "CORDONED", "DRAINING", "GONE"]


class Offer(NamedTuple):
    """What a node says of itself when it starts."""

    id: str
    boot: str
    slots: int
    labels: dict[str, str]
    version: str
    address: str | None = None
    channel_key: str | None = None
    details: dict[str, Any] = {}

    @property
    def actor(self) -> str:
        """As events name it."""
        return f"node:{self.id}"


def register(act: Act, offer: Offer, *, alone: bool) -> NodeState:
    """Write the row of a node that starts; gives its state: that it is cordoned or drained outlives its process.

    Raises:
        StateConflict: (CTL-040) the database is for one node, and another lives.
    """
    if alone:
        _refuse_second(act, offer)
    told = offer._asdict() | {"heartbeat_at": act.now, "started_at": act.now}
    added = insert_into(act.connection, node).values(**told, state="ACTIVE")
    again = {**told, "state": _state_again()}
    again.pop("id")
    written = added.on_conflict_do_update(index_elements=["id"], set_=again).returning(node.c.state)
    state: NodeState = act.connection.execute(written).scalar_one()
    return state


def _state_again() -> Any:
    """As people left it; one that was drained and ended in order had nothing left, and begins anew."""
    return case((node.c.state == "GONE", "ACTIVE"), else_=node.c.state)


def _refuse_second(act: Act, offer: Offer) -> None:
    lately = act.now - dt.timedelta(seconds=15)
    others = select(node.c.id).where(node.c.id != offer.id, node.c.heartbeat_at > lately, node.c.state != "GONE")
    other = act.connection.execute(others.limit(1)).scalar()
    if other is not None:
        msg = "metadata in SQLite are for one node, and there is another"
        raise StateConflict(
            msg, code="CTL-040", found=f"node {other}", hint="keep them in PostgreSQL: --database postgresql://…"
        )


def beat(act: Act, offer: Offer, details: dict[str, Any]) -> NodeState | None:
    """Say that the node lives; gives its state, or `None` if a newer process has its name."""
    matching = update(node).where(node.c.id == offer.id, node.c.boot == offer.boot)
    changed = matching.values(heartbeat_at=act.now, details=details).returning(node.c.state)
    state: NodeState | None = act.connection.execute(changed).scalar()
    return state


def leave(act: Act, offer: Offer) -> None:
    """The node ends, was drained, and has nothing left."""
    matching = update(node).where(node.c.id == offer.id, node.c.boot == offer.boot)
    act.connection.execute(matching.values(state="GONE", heartbeat_at=act.now))


def set_state(act: Act, identifier: str, state: NodeState) -> Row[Any]:
    """Cordon a node (it takes nothing new), drain it (what it has moves away), or let it take runs again.

    Raises:
        UnknownName: (CTL-041) there is none of that name.
    """
    changed = update(node).where(node.c.id == identifier, node.c.state != "GONE").values(state=state)
    row = act.connection.execute(changed.returning(node)).first()
    if row is None:
        msg = "there is no such node"
        raise UnknownName(msg, code="CTL-041", found=repr(identifier), hint="see what there is: millstream node list")
    return row


def nodes(act: Act) -> list[dict[str, Any]]:
    """Every node with the runs it answers for; its key is nobody's business."""
    owned = select(execution.c.node_id, execution.c.execution_id).where(execution.c.status.in_(OWNED))
    runs: dict[str, list[str]] = {}
    for each in act.connection.execute(owned):
        runs.setdefault(each.node_id, []).append(each.execution_id)
    rows = act.connection.execute(select(node).order_by(node.c.id))
    return [
        {**_shown(row), "runs": runs.get(row.id, []), "age": (act.now - row.heartbeat_at).total_seconds()}
        for row in rows
    ]


def _shown(row: Row[Any]) -> dict[str, Any]:
    return {name: value for name, value in row._mapping.items() if name != "channel_key"}
