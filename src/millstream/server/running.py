"""The service as one process: database, node, dispatcher and the server that answers, started and ended in order."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from millstream.control.act import acting
from millstream.control.artifacts.folders import CodeFolders
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.dispatcher.planned import DefinitionPlanner
from millstream.control.dispatcher.planning_ahead import PlannerAhead
from millstream.control.drivers.warm_pool import WarmLimits
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.opened import open_metadata
from millstream.control.metrics.exposition import Exposition
from millstream.control.nodes.calling import ChannelCalls
from millstream.control.plane import ControlPlane, NodeOptions, RunningNode, reach_of
from millstream.control.secrets.key_ring import KeyRing
from millstream.control.stored.calling import StoredCalls
from millstream.control.tracing.traces import Tracing
from millstream.server.access.proxies import networks_of
from millstream.server.access.tokens import first_admin_token
from millstream.server.service import Service
from millstream.server.serving import listening, server_of, spare_what_stays
from millstream.server.settings import Setting, settings_of_options


class ServerOptions(NamedTuple):
    """What the operator says of a server."""

    data: Path
    checkpoints: Path
    artifacts: Path | None = None
    """Code of jobs; shared storage where there are several nodes."""
    keys: Path | None = None
    """The keys that secrets are encrypted with: the same file for all servers and nodes."""
    database: str | None = None
    host: str = "127.0.0.1"
    port: int = 8650
    has_node: bool = True
    slots: int | None = None
    labels: Mapping[str, str] = {}
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies that have TLS and stand between browsers and this server."""
    watched: tuple[Path, ...] = ()
    """Folders in which schedules may wait for files."""
    warm: WarmLimits = WarmLimits()
    allows_private: bool = False
    """Whether job files may reach into private networks."""
    sources: Mapping[str, str] = {}
    """Where these come from, if not from here: `command line` or `environment`, by name."""
    tracing: Tracing | None = None


def run_server(options: ServerOptions, *, ready: Callable[[str], None]) -> None:
    """Serve until a signal says otherwise; drivers go on, and the next node process adopts them."""
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    metadata = open_metadata(options.database, options.data)
    with acting(metadata, "server") as act:
        first_admin_token(act, options.data / "admin.token")
    node = RunningNode(metadata, node_options(options)) if options.has_node else None
    known = node_options(options)
    compiled = CodeFolders(ArtifactStore(known.artifacts), options.data / "unpacked")
    plane = ControlPlane(metadata, node, watched=options.watched, compiled=compiled)
    planner = PlannerAhead(reach_of(known, metadata))
    service = _service(options, metadata, plane, node, planner)
    server = server_of(service, certificate=options.tls_certificate, certificate_key=options.tls_key)
    opened = listening(options.host, options.port)
    plane.start()
    planner.start()
    try:
        spare_what_stays()
        ready(_address(options, opened))
        server.run(sockets=[opened])
    finally:
        planner.close()
        plane.stop()
        metadata.close()


def _service(
    options: ServerOptions,
    metadata: Metadata,
    plane: ControlPlane,
    node: RunningNode | None,
    planner: DefinitionPlanner,
) -> Service:
    known = node_options(options)
    keys = KeyRing(known.keys)
    return Service(
        metadata=metadata,
        planner=planner,
        has_tls=options.tls_certificate is not None or bool(options.proxies),
        proxies=networks_of(options.proxies),
        signing_key=keys.derived("cursors"),
        reach=reach_of(known, metadata),
        channel=ChannelCalls(metadata),
        stored=StoredCalls(metadata),
        wake=plane.wake,
        keys=keys,
        artifacts=ArtifactStore(known.artifacts),
        unpacked=options.data / "unpacked",
        checkpoints=known.checkpoints,
        watched=options.watched,
        figures=Exposition(metadata, tuple if node is None else node.figures),
        settings=effective_settings(options),
    )


def effective_settings(options: ServerOptions) -> tuple[Setting, ...]:
    """What the service goes by, for people: what the operator left open is said too."""
    known = node_options(options)
    database = options.database or f"sqlite:///{options.data / 'metadata.db'}"
    effective = options._replace(artifacts=known.artifacts, keys=known.keys, slots=known.slots, database=database)
    values = effective._asdict()
    return settings_of_options(values, values.pop("sources"))


def node_options(options: ServerOptions) -> NodeOptions:
    """The node of a server."""
    known = NodeOptions(
        options.data / "node",
        options.checkpoints,
        options.artifacts or options.data / "artifacts",
        options.keys or options.data / "keys.json",
        labels=options.labels,
        warm=options.warm,
        allows_private=options.allows_private,
        closed=(options.data,),
        tracing=options.tracing,
        serves=True,
    )
    return known if options.slots is None else known._replace(slots=options.slots)


def _address(options: ServerOptions, listening: socket.socket) -> str:
    scheme = "http" if options.tls_certificate is None else "https"
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{scheme}://{host}:{listening.getsockname()[1]}"
