"""Which topics a Kafka source reads, and when to look for new ones."""

from __future__ import annotations

import time
from collections.abc import Mapping

from millstream.connectors.kafka.broker import Broker, Topic
from millstream.connectors.kafka.positions import KafkaPosition
from millstream.errors import ExternalFailure
from millstream.model.connector import Options
from millstream.model.time import duration_ms


class TopicDiscovery:
    """Looks at topics when a source starts and then now and then."""

    def __init__(self, options: Options, broker: Broker, *, step: str) -> None:
        self._options, self._broker, self._step = options, broker, step
        self._next = 0.0
        """At first at once: what is there now is compared with what a plan remembers."""

    def topics(self) -> dict[str, Topic]:
        """The topics that are to be read and exist."""
        pattern = self._options["pattern"]
        return self._broker.topics(self._options["topics"] if pattern is None else self._broker.names(pattern))

    def due(self, position: KafkaPosition) -> Mapping[str, Topic] | None:
        """The topics as they are now, when it is time to look; a bounded source looks once, for its topics may be others."""
        return None if time.monotonic() < self._next else self.looked(position)

    def looked(self, position: KafkaPosition) -> Mapping[str, Topic]:
        """The topics as they are now, due or not."""
        found = dict(self.topics())
        # A topic of the plan that fits the pattern no longer was deleted; asked by name, it is missing for sure.
        gone = [name for name in position.ids if name not in found]
        found.update(self._broker.topics(gone))
        interval = duration_ms(self._options["discover"])
        is_over = interval == 0 or position.until is not None
        self._next = float("inf") if is_over else time.monotonic() + interval / 1000
        return found

    def refuse_missing(self, topics: Mapping[str, Topic]) -> None:
        """A topic that is named must be there when a job starts; one that fits a pattern may come later."""
        missing = [name for name in self._options["topics"] if name not in topics]
        if missing:
            msg = f"topic {missing[0]!r} does not exist"
            hint = "create it, or correct topics"
            raise ExternalFailure(msg, code="KAFKA-011", step=self._step, found=", ".join(missing), hint=hint)
