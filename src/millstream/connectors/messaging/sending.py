"""The driver's half of a sink to a broker: an epoch is sent once it is durable, then the checkpoint marks it as sent.

A crash in between sends it again. Messages are called the same then: a broker that remembers names takes them once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from millstream.checkpoint.failpoint import failpoint
from millstream.connectors.marked.keeping import Batches
from millstream.connectors.messaging.outgoing import OutgoingMessage, messages_of
from millstream.contract.sink import SinkContext

BATCH_ROWS = 1_000
"""Messages that are under way at once, at most."""


class SendsMessages(Protocol):
    """Sends, and returns when the broker has confirmed."""

    def send(self, messages: Sequence[tuple[str, OutgoingMessage]]) -> None:
        """Send messages with their names, which are equal when they are sent again."""
        ...


def sent_by(sender: SendsMessages, context: SinkContext) -> Callable[[Batches, int | None], None]:
    """Sends the batches of an epoch."""

    def hand_on(batches: Batches, epoch: int | None) -> None:
        for told, batch in batches():
            context.heartbeat()
            sender.send([(f"{told.key}/{number}", each) for number, each in enumerate(messages_of(batch))])
        if epoch is not None:
            failpoint("sink_sent")

    return hand_on
