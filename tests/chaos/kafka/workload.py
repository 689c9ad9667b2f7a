"""The same seeded lines as messages of topics. All rows of a key go to one partition, so each key keeps its order."""

import json

from confluent_kafka import Producer
from tests.chaos.workload import SOURCES, Workload

PARTITIONS = 2
_FLUSH_SECONDS = 90


class TopicWorkload(Workload):
    """Produces lines instead of writing files, and remembers at which offset each stands."""

    def __init__(self, folder, seed, broker, topics, *, rows_per_file):
        super().__init__(folder, seed, rows_per_file=rows_per_file)
        self._broker, self.topics = broker, topics
        self.placed = {(source, partition): {} for source in SOURCES for partition in range(PARTITIONS)}
        """Per partition the text at each offset."""
        self.lost = dict.fromkeys(SOURCES, 0)
        """Lines that were deleted before they were read."""
        self.again = dict.fromkeys(SOURCES, 0)
        """How often a topic was made anew."""
        self._producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 1, "log_level": 0})
        for topic in topics.values():
            broker.create(topic, PARTITIONS)

    def _write(self, source):
        first = len(self.lines[source]) + self.lost[source]
        lines = [self._line(source, first + number) for number in range(self._rows_per_file)]
        for text in lines:
            self._produce(source, text)
        left = self._producer.flush(_FLUSH_SECONDS)
        assert not left, f"{left} lines were not taken by the broker"
        self.lines[source] += lines
        self.files[source] += 1

    def _produce(self, source, text):
        partition = _partition(text)

        def arrived(error, message):
            assert error is None, error
            self.placed[(source, partition)][message.offset()] = text

        self._producer.produce(self.topics[source], text.encode(), partition=partition, on_delivery=arrived)

    def end(self, source, partition):
        """The offset behind the last line."""
        return max(self.placed[(source, partition)], default=-1) + 1

    def forget(self, source, partition, first, end):
        """Lines at these offsets are deleted and unread: how many there were."""
        placed = self.placed[(source, partition)]
        gone = [placed[offset] for offset in range(first, end) if offset in placed]
        for text in gone:
            self.lines[source].remove(text)
        self.lost[source] += len(gone)
        return len(gone)

    def renew(self, source):
        """The topic is deleted and made anew, empty."""
        self._broker.admin.delete_topics([self.topics[source]])[self.topics[source]].result(_FLUSH_SECONDS)
        self._producer = Producer({"bootstrap.servers": self._broker.servers, "linger.ms": 1, "log_level": 0})
        self._broker.create(self.topics[source], PARTITIONS)
        for partition in range(PARTITIONS):
            self.placed[(source, partition)] = {}
        self.again[source] += 1


def _partition(text):
    """By key; a broken line has none, and its length decides."""
    try:
        return int(json.loads(text)["key"][1:]) % PARTITIONS
    except ValueError:
        return len(text) % PARTITIONS
