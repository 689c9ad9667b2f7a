"""What is known of the `kafka` connector without its client."""

from __future__ import annotations

from typing import Any

from millstream.connectors.kafka.sink_spec import SINK
from millstream.connectors.kafka.source_spec import SOURCE
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec


def kafka(topics: object = (), *, servers: object, **options: Any) -> ConnectorSpec:
    """Topics of Kafka."""
    return ConnectorSpec("kafka", {"topics": topics, "servers": servers, **options})


DECLARATION = ConnectorDeclaration(name="kafka", source=SOURCE, sink=SINK)
