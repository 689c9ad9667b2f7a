"""The hub: one task per process reads new events and gives them to every listener."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from sqlalchemy import Row, func, select
from starlette.concurrency import run_in_threadpool

from millstream.control.act import Act, reading
from millstream.control.metadata.tables.runs import run_event
from millstream.server.limits import StreamCounts
from millstream.server.service import Service
from millstream.server.streams.changes import Changes
from millstream.server.streams.listener import Listener
from millstream.server.streams.pulses import Pulses
from millstream.server.streams.topics import Announced, told_of

_AT_ONCE = 500
_GAP_SECONDS = 2.0
"""Numbers are given out before they are committed: one that is missing may still come."""
_log = logging.getLogger(__name__)


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
        self._changes, self._pulses = Changes(service), Pulses(service.channel)
        self._looking, self._has_ended = asyncio.Lock(), asyncio.Event()

    @contextlib.asynccontextmanager
    async def polling(self) -> AsyncIterator[None]:
        """While the application lives."""
        tasks = [asyncio.create_task(self._poll(), name="events"), asyncio.create_task(self._watch(), name="changes")]
        try:
            yield
        finally:
            # A look at the database that has begun comes to its end.
            self._has_ended.set()
            await asyncio.gather(*tasks)
            await self._pulses.end()

    @contextlib.asynccontextmanager
    async def listening(self, topics: frozenset[str]) -> AsyncIterator[Listener]:
        """One stream: everything that is written from now on reaches it, if it concerns its topics."""
        listener = Listener(self._service.limits.stream_queue, topics)
        self._listeners.add(listener)
        try:
            await self._begin()
            await self._look()
            yield listener
        finally:
            self._listeners.discard(listener)

    async def _poll(self) -> None:
        """Until the process ends; a database that is away is waited for."""
        while not self._has_ended.is_set():
            try:
                if self._listeners:
                    await self._round()
                else:
                    self._position = None  # nobody listens: those who come next read what they missed themselves
            except Exception:
                _log.warning("new events could not be read", exc_info=True)
            await self._pause(self._service.limits.poll_seconds)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_ended.wait(), seconds)

    async def _round(self) -> None:
        if self._position is None:
            await self._begin()
        assert self._position is not None
        rows = await run_in_threadpool(self._read, self._position)
        for row in self._in_order(rows):
            self._position = row.id
            self._tell([told_of(row)])

    def _tell(self, several: Iterable[Announced]) -> None:
        for told in several:
            for listener in self._listeners:
                listener.tell(told)

    async def _watch(self) -> None:
        """What is no event of a run: how far runs are, and what changed in jobs, operations and nodes."""
        while not self._has_ended.is_set():
            try:
                await self._look()
            except Exception:
                _log.warning("what changed could not be read", exc_info=True)
            self._pulses.ask(self._topics(), self._tell)
            await self._pause(self._service.limits.pulse_seconds)

    def _topics(self) -> frozenset[str]:
        return frozenset().union(*(each.topics for each in self._listeners))

    async def _look(self) -> None:
        """Changes since the last look; the first look knows of none."""
        async with self._looking:
            self._tell(await run_in_threadpool(self._changes.look, self._topics()))

    async def _begin(self) -> None:
        """Know where new events begin; who comes second must not move it on, past what the first has yet to hear."""
        if self._position is None:
            newest = await run_in_threadpool(self._newest)
            self._position = newest if self._position is None else self._position

    def _newest(self) -> int:
        with reading(self._service.metadata) as act:
            return settled_event(act, is_sqlite=self._service.metadata.is_sqlite)

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


def settled_event(act: Act, *, is_sqlite: bool) -> int:
    """The newest event before which nothing is still to come.

    PostgreSQL gives numbers out before they are committed: behind one that is missing, only what is older than the time that
    is waited for such a number counts.
    """
    newest: int = act.connection.execute(select(func.coalesce(func.max(run_event.c.id), 0))).scalar_one()
    if is_sqlite:
        return newest
    young = run_event.c.time > act.now - dt.timedelta(seconds=_GAP_SECONDS)
    recent = list(act.connection.execute(select(run_event.c.id).where(young).order_by(run_event.c.id)).scalars())
    if not recent:
        return newest
    before = select(func.coalesce(func.max(run_event.c.id), 0)).where(run_event.c.id < recent[0])
    last: int = act.connection.execute(before).scalar_one()
    for number in recent:
        if number != last + 1:
            break
        last = number
    return last
