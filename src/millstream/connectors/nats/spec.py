"""What is known of the `nats` connector without its client."""

from __future__ import annotations

from typing import Any

from millstream.connectors.nats.sink_spec import SINK
from millstream.connectors.nats.source_spec import SOURCE
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Extra


def nats(stream: object, *, servers: object, **options: Any) -> ConnectorSpec:
    """A JetStream stream of NATS: a replayable source, or a sink.

    Args:
        stream: the name of the stream.
        servers: `host:port` of one server or several of a cluster.
        **options: as a source `start`, `until`, `subjects`, `format`, `metadata`, `on_data_loss`; as a sink `publish_to`,
            `subject_field`, `headers`, `format`, `atomic`, `create`; for both `client` and the options of formats.
    """
    return ConnectorSpec("nats", {"stream": stream, "servers": servers, **options})


DECLARATION = ConnectorDeclaration(
    name="nats",
    source=SOURCE,
    sink=SINK,
    extras=(Extra("nats", "nats"), Extra("avro", "fastavro", "format='avro'")),
)
