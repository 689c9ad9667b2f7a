"""A round between topics: its input comes from Kafka, its rows go to Kafka and PostgreSQL."""

import json
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import IsolationLevel
from tests.chaos.kafka.workload import PARTITIONS, TopicWorkload
from tests.chaos.outputs import COLUMNS, Marker, Outputs, plain
from tests.chaos.round import Round
from tests.chaos.workload import SOURCES

from millstream.connectors.kafka.transactions.marks import mark_topic

STREAMS = {"plain": "postgres", "running": "kafka", "bells": "outbox", "latest": "upsert", "windows": "kafka"}
LETTERS = ("a",)
"""Sources whose broken lines go to a topic too."""
TRANSACTION_SECONDS = 10
_TRANSACTIONS_AT_START = 4


class KafkaRound(Round):
    """A round whose world has a broker."""

    def __init__(self, folder, seed, broker, **world):
        self.broker = broker
        self.skipped = {}
        """Per source the lines that the job must say it has jumped over."""
        super().__init__(folder, seed, **world)

    def _workload(self):
        self.name = f"{self.folder.name}-{time.time_ns()}"
        topics = {source: f"{self.name}-{source}" for source in SOURCES}
        return TopicWorkload(self.folder, self.seed, self.broker, topics, rows_per_file=self.size.rows_per_file)

    def _config(self, sinks):
        config = super()._config(sinks)
        written = [*(name for name, kind in STREAMS.items() if kind == "kafka"), *(f"{name}.dead" for name in LETTERS)]
        topics = {stream: f"{self.name}-{stream}" for stream in written}
        for topic in topics.values():
            self.broker.create(topic, PARTITIONS)
        broker = {
            "servers": self.broker.proxied_servers,
            "topics": {**self.workload.topics, **topics},
            "letters": LETTERS,
            "transaction_timeout": f"{TRANSACTION_SECONDS}s",
            "on_data_loss": "fail",
        }
        return {**config, "job": self.name, "streams": dict(STREAMS), "broker": broker}

    def _outputs(self):
        return KafkaOutputs(self.config, self.server, self.broker, self.checkpoints)

    @property
    def patience(self):
        return 2 * super().patience

    @property
    def letters(self):
        return dict.fromkeys(LETTERS, "kafka")

    def passes_at_start(self, place):
        sinks = len(LETTERS) + sum(kind == "kafka" for kind in STREAMS.values())
        return sinks * _TRANSACTIONS_AT_START if place == "sink_transaction" else 0

    @property
    def checks(self):
        return (losses_counted,)

    def position(self, source):
        """The next offset of each partition that no durable epoch has read, and the id of the topic."""
        head = self.head()
        if head is not None and head.epoch is not None:
            (topic,) = self.view().manifest().plan["sources"][source]["topics"].values()
            self._read[source] = {int(number): offset for number, offset in topic["at"].items()}
        return self._read[source] or {}

    def unread(self):
        """Shares of a file's size that no durable epoch has read yet, of the source that is furthest behind."""
        waiting = [
            sum(
                self.workload.end(source, number) - self.position(source).get(number, 0) for number in range(PARTITIONS)
            )
            for source in SOURCES
        ]
        return -(-max(waiting) // self.size.rows_per_file)


def losses_counted(round_, found):
    """Lines that were deleted before they were read are counted, each once."""
    if not round_.is_whole(found):
        return
    for source in SOURCES:
        plans = [manifest.plan["dropped"].get(source, {}) for manifest in found["manifests"].values()]
        told = sum(reasons.get("data_loss", 0) for reasons in plans)
        if told != round_.skipped.get(source, 0):
            yield f"I6 {source}: {round_.skipped.get(source, 0)} lines were deleted unread, {told} are counted"


class KafkaOutputs(Outputs):
    """The topics and tables of one round, read past the job."""

    def __init__(self, config, server, broker, checkpoints):
        super().__init__(config, server)
        self._broker, self._config, self._checkpoints = broker, config, checkpoints
        self._topics = config["broker"]["topics"]

    def rows(self, stream):
        """Of a topic what readers of committed records see."""
        if self._streams[stream] != "kafka":
            return super().rows(stream)
        found = (json.loads(message.value()) for message in self._broker.read(self._topics[stream]))
        return Counter(tuple(plain(row[name]) for name in COLUMNS[stream]) for row in found)

    def _listed_rows(self, sink):
        if sink in self._topics:
            return [json.loads(message.value()) for message in self._broker.read(self._topics[sink])]
        return super()._listed_rows(sink)

    @property
    def _sinks(self):
        return [*(name for name, kind in STREAMS.items() if kind == "kafka"), *(f"{name}.dead" for name in LETTERS)]

    def _marks(self, sink):
        """What readers see of the marks of a sink, in order."""
        messages = self._broker.read(mark_topic("millstream", self._config["job"], sink))
        return [fields for message in messages if (fields := json.loads(message.value()))["kind"] == "mark"]

    def markers(self):
        """In a topic the first mark that names an epoch was written with its rows."""
        found = super().markers()
        for sink in self._sinks:
            seen = {}
            for mark in self._marks(sink):
                for epoch, digest, rows in mark["epochs"]:
                    marker = Marker(sink, mark["lineage"], epoch, mark["token"], rows, digest)
                    seen.setdefault((mark["lineage"], epoch, digest, rows), marker)
            found += seen.values()
        return found

    def audit(self):
        """The tokens of all marks, in the order in which the broker took them."""
        found = super().audit()
        for sink in self._sinks:
            for mark in self._marks(sink):
                found.setdefault(("kafka", mark["lineage"], sink), []).append(mark["token"])
        return found

    def leftovers(self):
        """Staged messages too."""
        staged = [path for root in self._checkpoints for path in Path(root).rglob("staging/**/*.arrow")]
        return {**super().leftovers(), **({"staged messages": len(staged)} if staged else {})}

    def prepared_transactions(self):
        """Transactions of the broker that are still open too."""
        return super().prepared_transactions() + self.open_transactions()

    def open_transactions(self):
        """Topics with a transaction that is not decided."""
        return sum(map(self._is_undecided, (self._topics[sink] for sink in self._sinks)))

    def _is_undecided(self, topic):
        last = self._broker.await_leaders(topic, PARTITIONS)
        return self._broker.ends(topic, PARTITIONS, IsolationLevel.READ_COMMITTED) != last
