"""The driver's half of a sink to a broker: an epoch is sent once it is durable, then the checkpoint marks it as sent.

A crash in between sends it again. Messages are called the same then: a broker that remembers names takes them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.stores.local import LocalStore
from millstream.connectors.consumer.keepers import Batches, Decision
from millstream.connectors.consumer.marks import read_mark
from millstream.connectors.messaging.outgoing import OutgoingMessage, messages_of
from millstream.contract.sink import SinkContext

BATCH_ROWS = 1_000
"""Messages that are under way at once, at most."""
_MARK = "mark.json"


class SendsMessages(Protocol):
    """Sends, and returns when the broker has confirmed."""

    def send(self, messages: Sequence[tuple[str, OutgoingMessage]]) -> None:
        """Send messages with their names, which are equal when they are sent again."""
        ...


class SentKeeper:
    """Sends the batches of an epoch, then writes its mark to the checkpoint."""

    def __init__(self, sender: SendsMessages, context: SinkContext) -> None:
        self._sender, self._context = sender, context
        self._store = LocalStore(Path(context.staging).parent)

    def change(self, decide: Decision, epoch: int | None = None, batches: Batches = tuple) -> None:
        """Send batches and write a new mark, if the decision from the mark that is there gives one."""
        stored = self._store.read(_MARK)
        new = decide(read_mark(stored, step=self._context.step))
        if new is None:
            return
        for told, batch in batches():
            self._context.heartbeat()
            self._sender.send([(f"{told.key}/{number}", each) for number, each in enumerate(messages_of(batch))])
        if epoch is not None:
            failpoint("sink_sent")
        while not self._store.swap(_MARK, stored, new.text().encode()):
            # Another lineage changed it meanwhile, or a later owner has taken over.
            stored = self._store.read(_MARK)
            new = decide(read_mark(stored, step=self._context.step))
            if new is None:
                return
