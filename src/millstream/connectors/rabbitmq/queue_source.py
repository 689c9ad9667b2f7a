"""Plain queues as a source: a thread of the driver receives into the intake log, and the broker is told when output is published.

The broker forgets a message once it is acknowledged, so that happens only when its epoch is published: an owner that was
replaced never gets there, and its successor is sent the message again. What is sent again comes twice: at least once.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from millstream.connectors.intake.files import ORIGIN, LoggedEntry, place_of
from millstream.connectors.intake.intake import Intake
from millstream.connectors.intake.log import ReceivedEntry
from millstream.connectors.intake.reading import parts_of, read_parts
from millstream.connectors.loader.promise import admitted, shares
from millstream.connectors.messaging import patience
from millstream.connectors.messaging.received import BrokerMessage, MessageRows
from millstream.connectors.rabbitmq.consuming import Consumption
from millstream.connectors.rabbitmq.library import AbstractConnection
from millstream.connectors.rabbitmq.links import REFUSED, RabbitLink
from millstream.contract.source import Advance, BadRecord, Credit, Position, SourceContext, Split
from millstream.errors import ExternalFailure, MillstreamError
from millstream.model.connector import Options
from millstream.model.schema import Schema

_ENTRY_ROWS = 500
_TAKE_SECONDS = 0.1
_PAUSE_SECONDS = 0.3


class QueueEnumerator:
    """Admits messages that are durable in the log. Receiving begins with the first epoch."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._context, self._queue = context, str(options["queue"])
        self._own_folder = None if context.log_dir is not None else tempfile.mkdtemp(prefix="millstream-rabbitmq-")
        self._folder = Path(self._own_folder or context.log_dir or "").absolute()
        # What was not acknowledged is sent again: taken from the log as well, it would come twice for certain.
        self._intake = Intake(self._folder, context.token, ahead_bytes=options["ahead_bytes"], takes_rest=False)
        self._receiver = QueueReceiver(options, context)

    def initial(self) -> Position:
        """Before everything: what is in the queue is what comes."""
        return {"log": list(ORIGIN), "session": "", "tag": 0}

    def advance(self, start: Position, credit: Credit) -> Advance:
        """As many groups of messages as the credit allows, and at least one."""
        place = place_of(start["log"])
        self._intake.begin(place, self._receiver)
        waiting = self._intake.after(place)
        taken = admitted(waiting, credit)
        if not waiting:
            self._intake.raise_failure()
        last = taken[-1] if taken else None
        return Advance(
            position=start if last is None else {"log": list(last.place), **last.note},
            lag=sum(entry.rows for entry in waiting[len(taken) :]),
            ahead=self._intake.ahead(taken),
            partitions=(self._queue,),
            drained=(self._queue,) if not waiting and self._receiver.is_quiet else (),
        )

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """Groups of messages between two places of the log, in as many pieces as there are tasks."""
        entries = self._intake.between(place_of(start["log"]), place_of(end["log"]))
        return [self._split(piece) for piece in shares(entries, self._context.parallelism)]

    def _split(self, entries: Sequence[LoggedEntry]) -> Split:
        body = {"folder": str(self._folder), "parts": parts_of(entries)}
        return Split(self._queue, body, sum(entry.rows for entry in entries))

    def acknowledge(self, position: Position) -> None:
        """Tell the broker what is published, and make room in the log."""
        self._receiver.acknowledge(position["session"], position["tag"])
        self._intake.acknowledge(place_of(position["log"]))

    def close(self) -> None:
        """End the receiving; what was not acknowledged goes back to the queue."""
        self._intake.close()
        self._receiver.close()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)


class QueueReceiver:
    """Consumes in the thread of the intake, over one connection after the other."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._queue, self._prefetch = str(options["queue"]), options["prefetch"]
        self._link = RabbitLink(options, step=context.step)
        self._token, self._session = context.token, 0
        self._consumption: Consumption | None = None
        self._is_stopped = False
        self._taken = self._acknowledged = 0
        """Numbers of messages in this session: they count from 1 on, in the order in which they come."""
        self.is_quiet = False
        """Whether the queue was empty when it was last looked at."""

    def run(self, intake: Intake, _: Sequence[LoggedEntry]) -> None:
        """Receive until the intake is closed; a broker that is away is asked again, then the job is told."""
        since = 0.0
        while not intake.is_closed:
            try:
                self._open()
                while self._receive(intake):
                    since = 0.0
            except ExternalFailure as problem:
                self.is_quiet = False
                since = since or time.monotonic()
                if problem.code == REFUSED or time.monotonic() - since > patience.PATIENCE:
                    since = 0.0
                    intake.fail(problem)
                elif not intake.wait(_PAUSE_SECONDS):
                    return

    def _open(self) -> None:
        """A session of its own: numbers of messages begin anew in it. What the one before held back goes to the queue again."""
        last, self._consumption = self._consumption, None
        if last is not None:
            with contextlib.suppress(MillstreamError):
                self._link.ask(last.close, f"a consumer of queue {self._queue!r} cannot be ended")
        consumption = Consumption(self._queue, prefetch=self._prefetch)
        self._link.ask(consumption.open, f"the queue {self._queue!r} cannot be read")
        self._session, self._taken, self._acknowledged = self._session + 1, 0, 0
        self._consumption = consumption

    def _receive(self, intake: Intake) -> bool:
        consumption = self._consumption
        assert consumption is not None, "it was opened"

        async def take(_: AbstractConnection) -> list[BrokerMessage]:
            return await consumption.take(_TAKE_SECONDS, most=_ENTRY_ROWS)

        part = self._link.ask(take, f"the queue {self._queue!r} cannot be read")
        self.is_quiet = not part
        if part:
            self._taken += len(part)
            body = msgspec.msgpack.encode([[each.body, each.number, each.facts] for each in part])
            intake.put(ReceivedEntry(body, len(part), {"session": self._name, "tag": self._taken}))
        return intake.wait_for_room() and not self._is_stopped

    @property
    def _name(self) -> str:
        return f"{self._token}-{self._session}"

    def acknowledge(self, session: str, tag: int) -> None:
        """Acknowledge all up to a message. One of an earlier session cannot be acknowledged: the broker sends it again."""
        consumption = self._consumption
        if consumption is None or session != self._name or tag <= self._acknowledged:
            return

        async def tell(_: AbstractConnection) -> None:
            await consumption.acknowledge(tag)

        try:
            self._link.ask(tell, f"messages of queue {self._queue!r} cannot be acknowledged")
        except ExternalFailure:
            return  # The connection is gone, and with it all that could be acknowledged: they come again.
        self._acknowledged = tag

    def stop(self) -> None:
        """Nothing more is received."""
        self._is_stopped = True

    def close(self) -> None:
        """Disconnect."""
        try:
            self._link.close()
        except (MillstreamError, TimeoutError):
            return


class QueueReader:
    """Reads groups of messages of the intake log."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._queue, self._rows = (
            str(options["queue"]),
            MessageRows(options, schema, format=options["format"], metadata=options["metadata"]),
        )

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """The rows of messages, in the order in which they came."""
        for _, body in read_parts(Path(split["folder"]), split["parts"]):
            messages = [BrokerMessage(*each) for each in msgspec.msgpack.decode(body)]
            yield from self._rows.decode(messages, self._queue)

    def close(self) -> None:
        """Files are closed already."""
