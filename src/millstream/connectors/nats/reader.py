"""The worker's side of a NATS source: from ranges of sequences to rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from millstream.connectors.messaging.patience import AwayPatience
from millstream.connectors.messaging.received import MessageRows
from millstream.connectors.nats.fetching import FetchPlan, fetched
from millstream.connectors.nats.links import REFUSED, link_to
from millstream.connectors.nats.source import DATA_LOSS
from millstream.connectors.nats.streams import StreamQuestions
from millstream.contract.source import BadRecord, LostRows
from millstream.errors import StepFailed
from millstream.model.connector import Options
from millstream.model.schema import Schema


class NatsReader:
    """Reads splits `[when the stream was created, first sequence, sequence behind the last]`."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._options, self._stream = options, options["stream"]
        self._rows = MessageRows(options, schema, format=options["format"], metadata=options["metadata"])
        self._link = link_to(options, step=self._stream)

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord | LostRows]:
        """The rows of a range, in the order of sequences; it is read to its end, or fails."""
        created, first, end = split
        questions = StreamQuestions(self._link, self._stream, (), step=self._stream)
        facts = AwayPatience(refused=REFUSED).patiently(questions.facts)
        there = end if facts.created != created else max(first, min(facts.first, end))
        if there > first:
            yield self._lost(first, there)
        if there < end:
            plan = FetchPlan(self._stream, there, end, self._options["subjects"])
            for messages in fetched(self._link, plan, step=self._stream):
                yield from self._rows.decode(messages, self._stream)

    def _lost(self, first: int, end: int) -> LostRows:
        if self._options["on_data_loss"] == "skip":
            return LostRows(end - first, DATA_LOSS)
        msg = f"messages of stream {self._stream!r} were deleted before they were read"
        found = f"sequences {first} to {end - 1}"
        hint = "keep messages longer, or accept it with on_data_loss='skip'"
        raise StepFailed(msg, code="NATS-013", step=self._stream, found=found, hint=hint)

    def close(self) -> None:
        """The connection stays for the next task of this process."""
