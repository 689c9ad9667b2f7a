"""Where a stream queue begins and ends. The server does not say so: its first message is looked at, and its last are followed.

Offsets are addresses, never counts: what the server writes between messages takes some too.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from millstream.connectors.messaging.beginnings import instant_of
from millstream.connectors.messaging.received import BrokerMessage
from millstream.connectors.rabbitmq.consuming import StreamConsumption
from millstream.connectors.rabbitmq.library import AbstractConnection
from millstream.connectors.rabbitmq.links import REFUSED, RabbitLink
from millstream.errors import ExternalFailure, MillstreamError

_LOOK_SECONDS = 1.0
"""A queue that shows no message for so long has none."""
_QUIET_SECONDS = 0.1
_SETTLE_SECONDS = 5.0
_PAUSE_SECONDS = 0.3


def first_offset(link: RabbitLink, queue: str, where: Any = "first") -> int | None:
    """The offset of the first message from a place on, `first` or a time in milliseconds; `None` where there is none."""
    named = where if isinstance(where, str) else instant_of(where)

    async def look(connection: AbstractConnection) -> int | None:
        consumption = StreamConsumption(queue, named, prefetch=1)
        await consumption.open(connection)
        try:
            found = await consumption.take(_LOOK_SECONDS)
        finally:
            await consumption.close()
        return found[0].number if found else None

    return link.ask(look, f"the first message of queue {queue!r} cannot be looked at")


class StreamTail:
    """Follows the end of a stream queue in a thread. What it has seen is there, so an epoch may read up to it."""

    def __init__(self, link: RabbitLink, queue: str) -> None:
        self._link, self._queue = link, queue
        self._changed = threading.Condition()
        self._end: int | None = None
        self._is_quiet = False
        self._problem: MillstreamError | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def end(self) -> int:
        """The offset behind the last message that was seen; waits for the first look.

        Raises:
            ExternalFailure: the server is away.
        """
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="millstream-tail", daemon=True)
                self._thread.start()
            self._changed.wait_for(lambda: self._end is not None or self._problem is not None, 20 * _LOOK_SECONDS)
            if self._problem is not None:
                raise self._problem
            if self._end is None:
                msg = f"the end of queue {self._queue!r} cannot be found"
                raise ExternalFailure(msg, code="RABBIT-002", found="no answer", hint="see that the server answers")
            return self._end

    def settled_end(self) -> int:
        """The end, once nothing more came for a moment: the last messages come in several pieces.

        A queue that never rests is waited for a few seconds; then what was seen last counts.
        """
        self.end()
        with self._changed:
            self._changed.wait_for(lambda: self._is_quiet or self._problem is not None, _SETTLE_SECONDS)
        return self.end()

    def _follow(self) -> None:
        while not self._is_closed:
            try:
                self._follow_once()
            except MillstreamError as problem:
                with self._changed:
                    self._problem = problem
                    self._changed.notify_all()
                if not isinstance(problem, ExternalFailure) or problem.code == REFUSED:
                    return
                time.sleep(_PAUSE_SECONDS)

    def _follow_once(self) -> None:
        doing = f"the end of queue {self._queue!r} cannot be followed"
        consumption = StreamConsumption(self._queue, "last")
        self._link.ask(consumption.open, doing)
        try:
            self._follow_through(consumption, doing)
        finally:
            with contextlib.suppress(MillstreamError):
                self._link.ask(consumption.close, doing)

    def _follow_through(self, consumption: StreamConsumption, doing: str) -> None:
        seconds, seen, came = _LOOK_SECONDS, 0, time.monotonic()

        async def take(_: AbstractConnection) -> list[BrokerMessage]:
            return await consumption.take(seconds)

        while not self._is_closed:
            part = self._link.ask(take, doing)
            if part:
                seen, came = part[-1].number + 1, time.monotonic()
            with self._changed:
                self._problem, self._is_quiet = None, not part
                # The last messages come in pieces: only after a long silence is it another queue that ends before this end.
                is_whole = seen > 0 and time.monotonic() - came > _SETTLE_SECONDS
                self._end = seen if is_whole else max(self._end or 0, seen)
                self._changed.notify_all()
            seconds = _QUIET_SECONDS

    def close(self) -> None:
        """End the thread and disconnect."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.join(5.0)
        self._link.close()
