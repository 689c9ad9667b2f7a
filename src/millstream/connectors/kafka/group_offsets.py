"""Tells a consumer group how far output is published: for monitors that compare it with the end of topics, nobody else."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from millstream.connectors.kafka.client_options import client_config
from millstream.connectors.kafka.clients import open_consumer
from millstream.connectors.kafka.library import Consumer, KafkaError, KafkaException, TopicPartition
from millstream.connectors.kafka.positions import KafkaPosition
from millstream.model.connector import Options

_log = logging.getLogger(__name__)


class GroupOffsets:
    """Commits without joining. What fails here is told in the log: no job depends on it, and the next epoch says more."""

    def __init__(self, options: Options, *, step: str) -> None:
        self._options, self._step = options, step
        self._group: str | None = options["group"]
        self._consumer: Consumer | None = None
        self._was_refused = False

    def commit(self, position: KafkaPosition) -> None:
        """Commit the next offset of every partition, without waiting for the answer."""
        if self._group is None:
            return
        if self._consumer is None:
            config = {**client_config(self._options, step=self._step), "on_commit": self._committed}
            self._consumer = open_consumer(config, step=self._step, group=self._group)
        self._consumer.poll(0)
        offsets = [TopicPartition(place.topic, place.partition, offset) for place, offset in position.at.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as problem:
            self._committed(problem.args[0], offsets)

    def _committed(self, error: KafkaError | None, _: Sequence[TopicPartition]) -> None:
        if error is not None and not self._was_refused:
            _log.warning("step %r: group %r was not told its offsets: %s", self._step, self._group, error)
        self._was_refused = error is not None

    def close(self) -> None:
        """The last answers are waited for, a moment."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
