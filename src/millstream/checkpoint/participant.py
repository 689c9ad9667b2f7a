"""The participant protocol: how sources and sinks take part in an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from millstream.model.ids import Epoch


class Participant(Protocol):
    """Calls of an epoch: `save`, `prepare`, then `finish` once the manifest is durable or known to have failed.

    On start: `fence`, then `restore`. Prepared work is kept until `finish` with success, or until `restore` decides.
    """

    type: str

    def fence(self) -> None:
        """From now on refuse whoever owned this before."""
        ...

    def save(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """Move what the tasks handed over into the epoch; returns state for the manifest."""
        ...

    def prepare(self, epoch: Epoch) -> Any:
        """Phase one; the handle goes into the manifest."""
        ...

    def decide(self, epoch: Epoch, handle: Any) -> None:
        """A durable manifest names this handle: it takes the place of whatever was prepared for the epoch."""
        ...

    def finish(self, epoch: Epoch, *, success: bool) -> None:
        """Phase two. With success publish every epoch up to this one, in order; without it keep everything.

        A manifest write that reported failure may have landed, so failure is no reason to drop work.
        """
        ...

    def discard(self, messages: Sequence[Any]) -> None:
        """Drop what the tasks of a replayed epoch handed over: the manifest has the decision."""
        ...

    def restore(self, epoch: Epoch | None, handle: Any) -> None:
        """Publish what is durable up to `epoch`, drop what is newer; repeatable."""
        ...
