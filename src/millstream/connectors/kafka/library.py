"""The client library, for all modules of this connector; where it is missing, an error says how to get it."""

from __future__ import annotations

from millstream.errors import InvalidStep

try:
    from confluent_kafka import (
        Consumer,
        ConsumerGroupTopicPartitions,
        IsolationLevel,
        KafkaError,
        KafkaException,
        Message,
        Producer,
        TopicCollection,
        TopicPartition,
    )
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AdminClient,
        ConfigResource,
        NewTopic,
        OffsetSpec,
        TopicDescription,
    )
except ImportError as problem:
    _MSG = "the kafka connector needs the package confluent-kafka"
    raise InvalidStep(_MSG, code="KAFKA-001", hint="pip install 'millstream[kafka]'") from problem

__all__ = [
    "AdminClient",
    "ConfigResource",
    "Consumer",
    "ConsumerGroupTopicPartitions",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "Message",
    "NewTopic",
    "OffsetSpec",
    "Producer",
    "TopicCollection",
    "TopicDescription",
    "TopicPartition",
]
