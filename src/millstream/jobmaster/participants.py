"""Sources and sinks as participants of an epoch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from millstream.contract.sink import SinkCommitter
from millstream.contract.source import SplitEnumerator
from millstream.model.ids import Epoch


class SinkParticipant:
    """A sink's committer: what its tasks staged waits here until its epoch is durable."""

    def __init__(self, connector: str, committer: SinkCommitter) -> None:
        self.type = f"sink {connector}"
        self._committer = committer
        self._saved: dict[Epoch, list[Any]] = {}
        self._pending: dict[Epoch, Any] = {}
        self._taken: dict[Epoch, list[Any]] = {}
        """What this run made its last transactions of."""
        self._seconds = 0.0

    def fence(self) -> None:
        """Raise the fence of the sink."""
        self._committer.fence()

    def save(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """The messages belong to the epoch from here on."""
        self._saved[epoch] = list(messages)
        return {"parts": len(messages)}

    def prepare(self, epoch: Epoch) -> Any:
        """Turn the messages into a transaction."""
        messages = self._saved.pop(epoch)
        began = time.monotonic()
        handle = self._pending[epoch] = self._committer.prepare(epoch, messages)
        self._seconds += time.monotonic() - began
        self._taken = {each: taken for each, taken in self._taken.items() if each + 1 >= epoch} | {epoch: messages}
        return handle

    def decide(self, epoch: Epoch, handle: Any) -> None:
        """The transaction of a durable manifest."""
        self._pending[epoch] = handle

    def finish(self, epoch: Epoch, *, success: bool) -> None:
        """Publish every epoch up to this one, oldest first; a failure leaves it pending."""
        if success:
            began = time.monotonic()
            for each in sorted(pending for pending in self._pending if pending <= epoch):
                self._committer.publish(each, self._pending[each])
                del self._pending[each]
            self._seconds += time.monotonic() - began

    def take_seconds(self) -> float:
        """How long preparing and publishing took since this was last asked."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def discard(self, messages: Sequence[Any]) -> None:
        """Drop what a replay staged again; the same messages a second time are no replay, the manifest names them."""
        if list(messages) not in self._taken.values():
            self._committer.discard(messages)

    def restore(self, epoch: Epoch | None, handle: Any) -> None:
        """Publish the durable epoch, then drop what was staged and never became durable."""
        self._saved.clear()
        self._pending.clear()
        if epoch is not None and handle is not None:
            self.decide(epoch, handle)
            self.finish(epoch, success=True)
        self._committer.recover(epoch)


class SourceParticipant:
    """A source: it learns what is published only when it is, so a broker can forget what it acknowledged."""

    def __init__(self, connector: str, enumerator: SplitEnumerator) -> None:
        self.type = f"source {connector}"
        self._enumerator = enumerator
        self._positions: dict[Epoch, Any] = {}

    def fence(self) -> None:
        """Reading changes nothing outside."""

    def save(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """The position behind the epoch."""
        (self._positions[epoch],) = messages
        return None

    def prepare(self, epoch: Epoch) -> Any:
        """The position is the handle."""
        return self._positions[epoch]

    def decide(self, epoch: Epoch, handle: Any) -> None:
        """The position of a durable manifest."""
        self._positions[epoch] = handle

    def finish(self, epoch: Epoch, *, success: bool) -> None:
        """Acknowledge what every sink has published."""
        if success:
            for each in sorted(saved for saved in self._positions if saved <= epoch):
                self._enumerator.acknowledge(self._positions[each])
                del self._positions[each]

    def discard(self, messages: Sequence[Any]) -> None:
        """A position is nothing to drop."""

    def restore(self, epoch: Epoch | None, handle: Any) -> None:
        """Acknowledge again: the crash may have come first."""
        self._positions.clear()
        if epoch is not None and handle is not None:
            self.decide(epoch, handle)
            self.finish(epoch, success=True)
