"""What the service tells Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel

from millstream.control.nodes.registration import nodes
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


class ScrapeTarget(BaseModel):
    """What Prometheus is to scrape, in the form in which it asks for that."""

    targets: list[str]
    labels: dict[str, str]


@nodes_router.get("/metrics/targets", **guarded("viewer"), summary="What Prometheus is to scrape of nodes")
def scrape_targets(asking: Asks, request: Request) -> list[ScrapeTarget]:
    """For its `http_sd_configs`: every node that is no server and not gone, to be asked of this server."""
    with asking.reading() as act:
        found = [each for each in nodes(act) if each["state"] != "GONE" and not each["details"].get("serves")]
    where = request.headers["host"]
    return [
        ScrapeTarget(
            targets=[where], labels={"__metrics_path__": f"/v1/nodes/{each['id']}/metrics", "instance": each["id"]}
        )
        for each in found
    ]


@nodes_router.get(
    "/nodes/{node}/metrics", **guarded("viewer"), summary="Figures of a node's runs", response_class=Response
)
def node_metrics(node: NodeId, asking: Asks) -> Response:
    """For Prometheus, of a node that is no server: those of a server's own node are among the server's."""
    channel = asking.service.channel
    assert channel is not None, "this route is there only with a channel"
    return Response(channel.page(node), media_type=CONTENT_TYPE_PLAIN_0_0_4)
