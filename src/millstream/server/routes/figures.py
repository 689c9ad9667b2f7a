"""What the service tells Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from millstream.server.asking import Asks, guarded
from millstream.server.routes.nodes import NodeId

router = APIRouter(tags=["service"])
nodes_router = APIRouter(tags=["nodes"])


@router.get("/metrics", **guarded("viewer"), summary="Figures for Prometheus", response_class=Response)
def metrics(asking: Asks) -> Response:
    """Of all jobs and nodes, of this server, and of the runs of its own node."""
    figures = asking.service.figures
    assert figures is not None, "this route is there only with figures"
    return Response(figures.page(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@nodes_router.get(
    "/nodes/{node}/metrics", **guarded("viewer"), summary="Figures of a node's runs", response_class=Response
)
def node_metrics(node: NodeId, asking: Asks) -> Response:
    """For Prometheus, of a node that is no server: those of a server's own node are among the server's."""
    channel = asking.service.channel
    assert channel is not None, "this route is there only with a channel"
    return Response(channel.page(node), media_type=CONTENT_TYPE_PLAIN_0_0_4)
