"""Opens the driver's side of every source and sink of a plan."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from millstream.checkpoint.head import Head
from millstream.checkpoint.lease import Lease
from millstream.contract.sink import SinkCommitter, SinkContext
from millstream.contract.source import SourceContext, SplitEnumerator
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.stream_graph import StreamNode
from millstream.jobmaster.participants import SinkParticipant, SourceParticipant
from millstream.model.connector import (
    ConnectorSpec,
    is_written_directly,
    replaces,
    sink_declaration,
    source_declaration,
)
from millstream.plan.deployment import DeploymentPlan
from millstream.registry import load
from millstream.runtime.closing import OpenedParts
from millstream.runtime.sink_writers import staging_folder


def nodes_of(deployment: DeploymentPlan) -> list[StreamNode]:
    """All steps, in the order of the graph."""
    return [node for planned in deployment.plan.vertices for node in planned.vertex.nodes]


def replacing_sinks(deployment: DeploymentPlan) -> list[str]:
    """The sinks, by uid, in which the result of a run takes the place of the one before."""
    return [
        node.uid
        for node in nodes_of(deployment)
        if isinstance(node.operation, Sink) and replaces(node.operation.connector.options)
    ]


def uids_of(deployment: DeploymentPlan) -> dict[str, str]:
    """Per step id its uid."""
    return {node.id: node.uid for node in nodes_of(deployment)}


def source_folders(deployment: DeploymentPlan, root: Path | None) -> dict[str, Path]:
    """The folder of each source inside the checkpoint, by uid."""
    sources = [node for node in nodes_of(deployment) if isinstance(node.operation, Source)]
    return {} if root is None else {node.uid: root / node.uid for node in sources}


def staging_root(checkpoint: Path | None, parts: OpenedParts) -> str:
    """Where sinks may stage that have no place of their own; without a checkpoint, a folder that goes with the run."""
    if checkpoint is not None:
        return str(checkpoint.resolve() / "staging")
    folder = Path(tempfile.gettempdir()) / f"millstream-staging-{uuid.uuid4().hex}"
    parts.add("the staging folder", lambda: shutil.rmtree(folder, ignore_errors=True))
    return str(folder)


def open_sources(
    deployment: DeploymentPlan, folders: Mapping[str, Path], *, lineage: str, token: int, parts: OpenedParts
) -> dict[str, SplitEnumerator]:
    """The enumerators of all sources, by step; each is closed with the other parts of the run."""
    opened: dict[str, SplitEnumerator] = {}
    for node in nodes_of(deployment):
        if isinstance(node.operation, Source):
            folder = folders.get(node.uid)
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            context = SourceContext(
                step=node.id,
                schema=node.operation.schema,
                log_dir=folder,
                parallelism=deployment.plan.parallelism,
                token=token,
                job=deployment.name,
                lineage=lineage,
            )
            enumerator = load(source_declaration(node.operation.connector).enumerator)
            opened[node.id] = enumerator(node.operation.connector.options, context)
            parts.add(f"source {node.id!r}", opened[node.id].close)
    return opened


def open_sinks(
    deployment: DeploymentPlan, staging: str, *, head: Head, lease: Lease, parts: OpenedParts
) -> dict[str, SinkCommitter]:
    """The committers of all sinks, by step, in the order of the graph; each is closed with the other parts."""
    opened: dict[str, SinkCommitter] = {}
    for node in nodes_of(deployment):
        if isinstance(node.operation, Sink):
            assert node.input_schema is not None
            connector = node.operation.connector
            context = SinkContext(
                job=deployment.name,
                lineage=head.lineage,
                step=node.uid,
                schema=node.input_schema,
                token=lease.token,
                is_direct=is_written_directly(connector, deployment.plan.graph.requirements.guarantee),
                staging=staging_folder(staging, node.uid, head.lineage),
                same_run=tuple(head.origin.of_run),
                heartbeat=lease.check,
            )
            opened[node.id] = load(sink_declaration(connector).committer)(connector.options, context)
            parts.add(f"sink {node.id!r}", opened[node.id].close)
    return opened


def participants_of(
    deployment: DeploymentPlan, sources: Mapping[str, SplitEnumerator], sinks: Mapping[str, SinkCommitter]
) -> dict[str, SourceParticipant | SinkParticipant]:
    """Sources and sinks as participants, by uid, from sources to sinks."""
    participants: dict[str, SourceParticipant | SinkParticipant] = {}
    for node in nodes_of(deployment):
        if isinstance(node.operation, Source):
            participants[node.uid] = SourceParticipant(node.operation.connector.name, sources[node.id])
        elif isinstance(node.operation, Sink):
            participants[node.uid] = SinkParticipant(node.operation.connector.name, sinks[node.id])
    return participants


def sink_protocol(connector: ConnectorSpec, deployment: DeploymentPlan) -> str:
    """How a sink of this run makes rows visible."""
    if is_written_directly(connector, deployment.plan.graph.requirements.guarantee):
        return "direct"
    return str(sink_declaration(connector).promises(connector.options))
