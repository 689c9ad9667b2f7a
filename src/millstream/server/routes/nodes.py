"""Nodes: what there is, and whether they take runs."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel

from millstream.control.nodes.registration import NodeState, nodes, set_state
from millstream.control.refusals import UnknownName
from millstream.server.asking import Asking, Asks, guarded

router = APIRouter(tags=["nodes"])
NodeId = Annotated[str, Path(min_length=1, max_length=64)]


class NodeShown(BaseModel):
    """A node, with the runs it answers for."""

    id: str
    state: str
    slots: int
    labels: dict[str, str]
    version: str
    address: str | None
    heartbeat_at: dt.datetime
    started_at: dt.datetime
    age: float
    """Seconds since it was last heard of."""
    runs: list[str]
    details: dict[str, Any]


class NodeList(BaseModel):
    """All nodes: there are few."""

    items: list[NodeShown]


@router.get("/nodes", **guarded("viewer"), summary="List nodes")
def list_nodes(asking: Asks) -> NodeList:
    """All that ever were here."""
    with asking.reading() as act:
        return NodeList(items=[NodeShown.model_validate(each) for each in nodes(act)])


@router.get("/nodes/{node}", **guarded("viewer"), summary="Get a node")
def get_node(node: NodeId, asking: Asks) -> NodeShown:
    """One node."""
    return _node(asking, node)


@router.post("/nodes/{node}/cordon", **guarded("admin"), summary="Let a node take no new runs")
def cordon(node: NodeId, asking: Asks) -> NodeShown:
    """What it has goes on."""
    return _changed(asking, node, "CORDONED")


@router.post("/nodes/{node}/uncordon", **guarded("admin"), summary="Let a node take runs again")
def uncordon(node: NodeId, asking: Asks) -> NodeShown:
    """It takes runs from its next heartbeat on."""
    return _changed(asking, node, "ACTIVE")


@router.post("/nodes/{node}/drain", **guarded("admin"), summary="Move the runs of a node elsewhere")
def drain(node: NodeId, asking: Asks) -> NodeShown:
    """Every run of it ends as its job says, and starts on another node."""
    return _changed(asking, node, "DRAINING")


def _changed(asking: Asking, identifier: str, state: NodeState) -> NodeShown:
    with asking.acting() as act:
        set_state(act, identifier, state)
        asking.audit(act, f"node.{state.lower()}", identifier)
    return _node(asking, identifier)


def _node(asking: Asking, identifier: str) -> NodeShown:
    with asking.reading() as act:
        found = [each for each in nodes(act) if each["id"] == identifier]
    if not found:
        msg = "there is no such node"
        raise UnknownName(msg, code="CTL-041", found=repr(identifier), hint="see what there is: millstream node list")
    return NodeShown.model_validate(found[0])
