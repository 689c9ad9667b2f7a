"""Topics of a Kafka broker, as tests make, fill and read them."""

import contextlib
import time
import uuid

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

_SECONDS = 30
_COMMITTED, _UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


class KafkaTopics:
    """A broker that others may use too: each test has topics of its own."""

    def __init__(self, servers):
        self.servers = servers
        self._made_admin = None

    @property
    def admin(self):
        if self._made_admin is None:
            self._made_admin = AdminClient(_quiet(self.servers))
        return self._made_admin

    def answers(self):
        with contextlib.suppress(KafkaException):
            return bool(AdminClient(_quiet(self.servers)).list_topics(timeout=2).brokers)
        return False

    def topic(self, partitions=1, *, name="topic", **config):
        """The name of a new topic that can be written to; `retention_ms=…` becomes the setting `retention.ms`."""
        unique = f"{name}-{uuid.uuid4().hex[:12]}"
        self.create(unique, partitions, **config)
        return unique

    def create(self, unique, partitions=1, **config):
        """A topic of this very name."""
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        new = NewTopic(unique, num_partitions=partitions, replication_factor=1, config=settings)
        self.admin.create_topics([new])[unique].result(_SECONDS)
        self.await_leaders(unique, partitions)

    def await_leaders(self, topic, partitions):
        """A topic has no leader for a moment after it was made, and another one in each life of a broker."""
        until = time.monotonic() + _SECONDS
        while True:
            try:
                return self.ends(topic, partitions)
            except KafkaException:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
                # A client goes on asking the leader it knows, FENCED_LEADER_EPOCH or not, until it sees all topics anew.
                self.admin.list_topics(timeout=_SECONDS)

    def await_no_transaction(self, topic, partitions):
        """Wait until every transaction that wrote to a topic has ended: the broker ends those that lasted too long."""
        until = time.monotonic() + _SECONDS
        while self.ends(topic, partitions, _COMMITTED) != self.ends(topic, partitions):
            assert time.monotonic() < until, f"a transaction is still open after {_SECONDS} s"
            time.sleep(0.05)

    def ends(self, topic, partitions, isolation=_UNCOMMITTED):
        """The offset behind the last record of each partition that a reader may come to."""
        wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        found = self.admin.list_offsets(wanted, request_timeout=_SECONDS, isolation_level=isolation)
        return {place.partition: future.result(_SECONDS).offset for place, future in found.items()}

    def send(self, topic, values, **message):
        """Produce messages, all acknowledged when it returns."""
        producer = Producer({**_quiet(self.servers), "linger.ms": 1})
        failures = []
        for value in values:
            producer.produce(
                topic, value, on_delivery=lambda error, _: failures.append(error) if error else None, **message
            )
            producer.poll(0)
        producer.flush(_SECONDS)
        assert not failures, failures[0]

    def read(self, topic, *, isolation="read_committed"):
        """All messages of a topic that a reader sees now, partition by partition."""
        config = {
            **_quiet(self.servers),
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "error",
        }
        consumer = Consumer(config)
        try:
            partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
            return _until_ends(consumer, set(partitions))
        finally:
            consumer.close()


def _until_ends(consumer, waiting):
    messages = []
    until = time.monotonic() + _SECONDS
    while waiting:
        assert time.monotonic() < until, f"no end of partitions {sorted(waiting)} within {_SECONDS} s"
        for message in consumer.consume(10_000, timeout=0.05):
            if message.error() is None:
                messages.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise KafkaException(message.error())
    return sorted(messages, key=lambda message: (message.partition(), message.offset()))


def _quiet(servers):
    # librdkafka writes to stderr what its errors say anyway.
    return {"bootstrap.servers": servers, "log_level": 0}
