"""Consumers on a channel: they take in what the server pushes, and somebody else takes it out.

A channel is closed only when no acknowledgement is on its way: the server would close the whole connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from millstream.connectors.messaging.received import BrokerMessage
from millstream.connectors.rabbitmq.library import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    ChannelInvalidStateError,
)
from millstream.connectors.rabbitmq.links import is_lost

_OFFSET = "x-stream-offset"
_ACK_EVERY = 250


class Consumption:
    """One channel with one consumer."""

    def __init__(self, queue: str, *, prefetch: int, arguments: Mapping[str, Any] | None = None) -> None:
        self._queue, self._prefetch, self._arguments = queue, prefetch, dict(arguments or {})
        self._messages: list[BrokerMessage] = []
        self._arrived = asyncio.Event()
        self.channel: AbstractChannel | None = None
        self._connection: AbstractConnection | None = None
        self._consumer = ""
        self.tag = 0
        """The number of the last message that came."""

    async def open(self, connection: AbstractConnection) -> None:
        """Have the server push."""
        self._connection = connection
        self.channel = await connection.channel()
        await self.channel.set_qos(prefetch_count=self._prefetch)
        queue = await self.channel.declare_queue(self._queue, passive=True)
        self._consumer = await queue.consume(self._take_in, arguments=self._arguments)

    async def _take_in(self, message: AbstractIncomingMessage) -> None:
        self.tag = int(message.delivery_tag or 0)
        self._messages.append(received(message))
        self._arrived.set()

    async def take(self, seconds: float, *, most: int = 0) -> list[BrokerMessage]:
        """What has come, waited for; nothing if nothing came.

        Raises:
            ChannelInvalidStateError: the channel is gone, or the server has ended the consumer.
        """
        if not self._messages and (self._is_gone or await self._is_cancelled()):
            msg = "the channel was closed, or its consumer ended"
            raise ChannelInvalidStateError(msg)
        try:
            await asyncio.wait_for(self._arrived.wait(), seconds)
        except TimeoutError:
            return []
        some = most or len(self._messages)
        taken, self._messages = self._messages[:some], self._messages[some:]
        if not self._messages:
            self._arrived.clear()
        return taken

    @property
    def _is_gone(self) -> bool:
        """A channel does not tell when its connection is lost."""
        is_cut_off = self._connection is None or is_lost(self._connection)
        return is_cut_off or self.channel is None or self.channel.is_closed

    async def _is_cancelled(self) -> bool:
        """A queue that is deleted or moves to another node ends its consumers: the channel stays, and nothing comes any more."""
        assert self.channel is not None, "it was opened"
        under: Any = await self.channel.get_underlay_channel()
        return self._consumer not in under.consumers

    async def acknowledge(self, tag: int) -> None:
        """Acknowledge all messages up to a number."""
        if self.channel is not None and not self._is_gone:
            under = await self.channel.get_underlay_channel()
            await under.basic_ack(tag, multiple=True)

    async def close(self, _: AbstractConnection | None = None) -> None:
        """What was not acknowledged goes back to the queue."""
        channel, is_gone, self.channel = self.channel, self._is_gone, None
        if channel is not None and not is_gone:
            await channel.close()


class StreamConsumption(Consumption):
    """A consumer of a stream queue: acknowledging only asks for more, and nothing is taken from the queue."""

    def __init__(self, queue: str, where: Any, *, prefetch: int = 1000) -> None:
        super().__init__(queue, prefetch=prefetch, arguments={_OFFSET: where})
        self._acknowledged = 0

    async def take(self, seconds: float, *, most: int = 0) -> list[BrokerMessage]:
        """What has come; the server is asked for more."""
        taken = await super().take(seconds, most=most)
        if self.tag - self._acknowledged >= min(_ACK_EVERY, self._prefetch):
            self._acknowledged = self.tag
            await self.acknowledge(self.tag)
        return taken


def received(message: AbstractIncomingMessage) -> BrokerMessage:
    """A message in the form that all brokers share."""
    headers = dict(message.headers)
    offset = headers.pop(_OFFSET, 0)
    sent = message.timestamp
    facts = {
        "routing_key": message.routing_key,
        "exchange": message.exchange,
        "message_id": message.message_id,
        "timestamp": None if sent is None else round(sent.timestamp() * 1_000_000),
        "redelivered": bool(message.redelivered),
        "headers": [(key, _bytes(value)) for key, value in headers.items()],
    }
    return BrokerMessage(message.body, offset if isinstance(offset, int) else 0, facts)


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, (bytes, bytearray)) else str(value).encode()
