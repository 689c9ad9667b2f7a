"""What is known of the `kafka` connector without its client."""

from __future__ import annotations

from typing import Any

from millstream.connectors.kafka.sink_spec import SINK
from millstream.connectors.kafka.source_spec import SOURCE
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Extra


def kafka(topics: object = (), *, servers: object, **options: Any) -> ConnectorSpec:
    """Topics of Kafka: a replayable source, or a sink that sends each epoch in one transaction.

    Args:
        topics: one topic or several; for a sink one.
        servers: `host:port` of one broker or several.
        **options: as a source `start`, `until`, `pattern`, `partitions`, `group`, `discover`, `format`, `key_fields`,
            `key_format`, `metadata`, `on_data_loss`, `isolation`, `poll_messages`; as a sink `format`, `mode`, `key_fields`,
            `key_format`, `value_fields`, `topic_field`, `partition_by`, `partition_field`, `timestamp`, `headers`, `create`
            and others; for both `client` and the options of formats.
    """
    return ConnectorSpec("kafka", {"topics": topics, "servers": servers, **options})


DECLARATION = ConnectorDeclaration(
    name="kafka",
    source=SOURCE,
    sink=SINK,
    extras=(Extra("kafka", "confluent_kafka"), Extra("avro", "fastavro", "format='avro'")),
)
