"""The protocol of a connection whose client owes something: the rest of a head, or of a body that was answered already."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that waits, but not for long. A body that is still wanted is timed by who reads it."""

    seconds = 10.0
    """From the first byte of a head, or the beginning of the connection, to its last one."""
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connects to say something."""
        super().connection_made(transport)
        self._owe()

    def data_received(self, data: bytes) -> None:
        """Bytes; each of them ends uvicorn's own wait for the next request."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE or self._is_answered_early():
            self._owe()
        else:
            self._settle()

    def on_response_complete(self) -> None:
        """What is left of the body of a request that was refused is read and thrown away."""
        super().on_response_complete()
        if self._is_answered_early():
            self._owe()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._settle()
        super().connection_lost(exc)

    def _is_answered_early(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

    def _owe(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.seconds, self.transport.abort)

    def _settle(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
