"""Publishes messages to a stream, each confirmed; with the same name a message is taken once, within the stream's window."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from millstream.connectors.messaging import patience
from millstream.connectors.messaging.outgoing import OutgoingMessage
from millstream.connectors.nats.library import Client, JetStreamContext
from millstream.connectors.nats.links import REFUSED, NatsLink
from millstream.contract.sink import SinkContext
from millstream.errors import ExternalFailure

_CONFIRM_SECONDS = 5.0
_PAUSE_SECONDS = 0.2


class NamedPublisher:
    """Sends batches; one whose confirmation is lost is sent again, and its messages are known by their names."""

    def __init__(self, link: NatsLink, stream: str, subject: str, context: SinkContext) -> None:
        self._link, self._stream, self._subject, self._context = link, stream, subject, context

    def send(self, messages: Sequence[tuple[str, OutgoingMessage]]) -> None:
        """Send messages with their names; all are in the stream when it returns."""

        async def publish(_: Client, stream: JetStreamContext) -> None:
            waiting = [
                await stream.publish_async(
                    message.address or self._subject,
                    message.body,
                    stream=self._stream,
                    headers={**message.headers, **name_header(name)},
                )
                for name, message in messages
            ]
            await asyncio.gather(*waiting)

        until = time.monotonic() + patience.PATIENCE
        while True:
            try:
                self._link.ask(
                    publish, "messages cannot be published", step=self._context.step, seconds=_CONFIRM_SECONDS
                )
            except ExternalFailure as problem:
                if problem.code == REFUSED or time.monotonic() > until:
                    raise
                self._context.heartbeat()
                time.sleep(_PAUSE_SECONDS)
            else:
                return


def name_header(name: str) -> dict[str, str]:
    """What says how a message is called, by which the server knows it again."""
    return {"Nats-Msg-Id": name}
