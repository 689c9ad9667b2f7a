"""The hub: one task per process reads new events and gives them to every listener."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from sqlalchemy import Row, func, select
from starlette.concurrency import run_in_threadpool

from millstream.control.act import reading
from millstream.control.metadata.tables.runs import run_event
from millstream.server.limits import StreamCounts
from millstream.server.service import Service
from millstream.server.streams.topics import Announced, told_of

_AT_ONCE = 500
_GAP_SECONDS = 2.0
"""Numbers are given out before they are committed: one that is missing may still come."""
_log = logging.getLogger(__name__)


class Listener:
    """One open stream: what it still has to send. It is used by the event loop alone."""

    def __init__(self, most: int) -> None:
        self._waiting: asyncio.Queue[Announced] = asyncio.Queue(most)
        self.overflowed = False

    def tell(self, told: Announced) -> None:
        """Put an event behind the others; one that reads too slowly has to begin anew."""
        try:
            self._waiting.put_nowait(told)
        except asyncio.QueueFull:
            self.overflowed = True

    async def next(self, seconds: float) -> Announced | None:
        """The next event, or `None` after so long."""
        try:
            return await asyncio.wait_for(self._waiting.get(), seconds)
        except TimeoutError:
            return None


class Hub:
    """Listeners of this process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._listeners: set[Listener] = set()
        self._position: int | None = None
        self._gap_since: float | None = None
        self.is_ending: Callable[[], bool] = lambda: False
        """Whether the server goes down: it waits for its streams."""
        self.counts = StreamCounts(service.limits.streams)

    @contextlib.asynccontextmanager
    async def polling(self) -> AsyncIterator[None]:
        """While the application lives."""
        task = asyncio.create_task(self._poll(), name="events")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Listener]:
        """One stream: everything that is written from now on reaches it."""
        listener = Listener(self._service.limits.stream_queue)
        self._listeners.add(listener)
        try:
            await self._begin()
            yield listener
        finally:
            self._listeners.discard(listener)

    async def _poll(self) -> None:
        """Until the process ends; a database that is away is waited for."""
        while True:
            try:
                if self._listeners:
                    await self._round()
                else:
                    self._position = None  # nobody listens: those who come next read what they missed themselves
            except Exception:
                _log.warning("new events could not be read", exc_info=True)
            await asyncio.sleep(self._service.limits.poll_seconds)

    async def _round(self) -> None:
        if self._position is None:
            await self._begin()
        assert self._position is not None
        rows = await run_in_threadpool(self._read, self._position)
        for row in self._in_order(rows):
            self._position = row.id
            for listener in self._listeners:
                listener.tell(told_of(row))

    async def _begin(self) -> None:
        """Know where new events begin; who comes second must not move it on, past what the first has yet to hear."""
        if self._position is None:
            newest = await run_in_threadpool(self._newest)
            self._position = newest if self._position is None else self._position

    def _newest(self) -> int:
        with reading(self._service.metadata) as act:
            return newest_event(act.connection)

    def _read(self, position: int) -> list[Row[Any]]:
        with reading(self._service.metadata) as act:
            found = select(run_event).where(run_event.c.id > position).order_by(run_event.c.id).limit(_AT_ONCE)
            return list(act.connection.execute(found))

    def _in_order(self, rows: list[Row[Any]]) -> list[Row[Any]]:
        """Rows up to the first number that is missing, unless it has been missing for long: it was given up then."""
        assert self._position is not None
        ready, last = [], self._position
        now = self._service.monotonic()
        for row in rows:
            if row.id != last + 1 and not self._waited(now):
                break
            self._gap_since = None
            ready.append(row)
            last = row.id
        return ready

    def _waited(self, now: float) -> bool:
        if self._service.metadata.is_sqlite:
            return True  # its writers take turns: nothing comes later with a smaller number
        self._gap_since = self._gap_since or now
        return now - self._gap_since >= _GAP_SECONDS


def newest_event(connection: Any) -> int:
    """The number of the newest event."""
    newest: int = connection.execute(select(func.coalesce(func.max(run_event.c.id), 0))).scalar_one()
    return newest
