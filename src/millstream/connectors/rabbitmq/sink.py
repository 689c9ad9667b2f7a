"""The `rabbitmq` sink: messages wait in the checkpoint until their epoch is durable, then the driver publishes them, confirmed.

A broker does not know what it has taken: an epoch whose confirmation is lost is published again. `message_id` is equal then, for
receivers that look at it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from millstream.connectors.marked.committer import MarkedCommitter
from millstream.connectors.marked.keeping import CheckpointKeeper
from millstream.connectors.messaging import patience
from millstream.connectors.messaging.outgoing import (
    MessageRoles,
    OutgoingMessage,
    RowEncoder,
    StagingWriter,
    staged_addresses,
)
from millstream.connectors.messaging.sending import BATCH_ROWS, sent_by
from millstream.connectors.rabbitmq.library import AbstractConnection, ChannelNotFoundEntity, DeliveryMode, Message
from millstream.connectors.rabbitmq.links import REFUSED, RabbitLink
from millstream.contract.sink import SinkContext, SinkTask
from millstream.errors import ExternalFailure, InvalidStep, StepFailed
from millstream.model.connector import Options
from millstream.model.ids import Epoch
from millstream.model.schema import Schema

_PAUSE_SECONDS = 0.3
_LONGEST = 255
"""Bytes of a routing key: its length is one byte on the wire."""


class RabbitWriter(StagingWriter):
    """Stages the messages of one task."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        roles = MessageRoles(options["routing_key_field"], options["headers"], longest=_LONGEST)
        rows = RowEncoder(options, schema, roles, format=options["format"], step=task.step, code="RABBIT-021")
        super().__init__(rows, task)


class RabbitCommitter(MarkedCommitter):
    """Publishes each epoch that is durable."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._queues: set[str] = set()
        """Those that rows have named, and that were there."""
        self._link = RabbitLink(options, step=context.step)
        publisher = ConfirmedPublisher(self._link, options, context)
        super().__init__(context, CheckpointKeeper(context, sent_by(publisher, context)), batch_rows=BATCH_ROWS)

    def fence(self) -> None:
        """See that the queue is there, and leave the token of this run in the mark."""
        prepare_queue(self._link, self._options)
        super().fence()

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """The files of the epoch. Queues that rows name must be there: behind this the epoch would be published for ever.

        Whether an exchange leads a key to a queue, its server alone can tell, of a message that is published.
        """
        prepared = super().prepare(epoch, messages)
        if not self._options["exchange"] and self._options["routing_key_field"] is not None:
            named = staged_addresses(self._context.staging, prepared["files"])
            for queue in sorted(named - self._queues):
                self._look_for(queue)
        return prepared

    def _look_for(self, queue: str) -> None:
        try:
            prepare_queue(self._link, {**self._options, "queue": queue, "create": False})
        except InvalidStep as problem:
            msg = "a message finds no queue: a row names one that does not exist"
            hint = "create it, or mend or filter such rows before the sink"
            raise StepFailed(msg, code="RABBIT-021", step=self._context.step, found=queue, hint=hint) from problem
        except ExternalFailure:
            return  # a server that is away is for those who publish
        self._queues.add(queue)

    def close(self) -> None:
        """Disconnect."""
        self._link.close()


def prepare_queue(link: RabbitLink, options: Options) -> None:
    """See that the queue, or the exchange where one is named, is there; a queue is created where that is wanted."""
    queue, exchange = options["queue"], options["exchange"]

    async def look(connection: AbstractConnection) -> None:
        async with connection.channel() as channel:
            if exchange:
                await channel.get_exchange(exchange, ensure=True)
            else:
                await channel.declare_queue(queue, passive=True)

    async def look_or_create(connection: AbstractConnection) -> None:
        try:
            await look(connection)
        except ChannelNotFoundEntity:
            if exchange or not options["create"]:
                raise
            kind: dict[str, Any] = {"x-queue-type": "stream"} if options["kind"] == "stream" else {}
            async with connection.channel() as channel:
                await channel.declare_queue(queue, durable=True, arguments=kind)

    link.ask(look_or_create, f"the {'exchange' if exchange else 'queue'} {exchange or queue!r} cannot be found")


class ConfirmedPublisher:
    """Publishes batches; one whose confirmation is lost is published again."""

    def __init__(self, link: RabbitLink, options: Options, context: SinkContext) -> None:
        self._link, self._options, self._context = link, options, context

    def send(self, messages: Sequence[tuple[str, OutgoingMessage]]) -> None:
        """Publish messages; the broker has all of them when it returns."""

        async def publish(connection: AbstractConnection) -> None:
            async with connection.channel(publisher_confirms=True, on_return_raises=True) as channel:
                named = self._options["exchange"]
                exchange = await channel.get_exchange(named, ensure=False) if named else channel.default_exchange
                sent = [
                    exchange.publish(_message(name, each), each.address or self._options["queue"], mandatory=True)
                    for name, each in messages
                ]
                await asyncio.gather(*sent)

        until = time.monotonic() + patience.PATIENCE
        while True:
            try:
                self._link.ask(publish, "messages cannot be published", seconds=30.0)
            except ExternalFailure as problem:
                if problem.code == REFUSED or time.monotonic() > until:
                    raise
                self._context.heartbeat()
                time.sleep(_PAUSE_SECONDS)
            else:
                return


def _message(name: str, outgoing: OutgoingMessage) -> Message:
    return Message(
        outgoing.body,
        headers=dict(outgoing.headers),
        message_id=name,
        delivery_mode=DeliveryMode.PERSISTENT,
    )
