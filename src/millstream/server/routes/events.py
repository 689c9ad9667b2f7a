"""The stream of events, by server-sent events."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from millstream.errors import ExternalFailure
from millstream.server.access.sessions import is_still
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.refusing import refuse_for_now
from millstream.server.streams.feed import feed
from millstream.server.streams.hub import Hub
from millstream.server.streams.topics import topics_of

router = APIRouter(tags=["events"])
_RETRY = 30.0


class EventStream(StreamingResponse):
    """An answer without end; `closed` is called when it ends, also for a client that left before it began."""

    def __init__(self, told: AsyncIterator[str], closed: Callable[[], None]) -> None:
        super().__init__(told, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._closed()


@router.get("/events", **guarded("viewer"), summary="What happens, as it happens", response_class=StreamingResponse)
async def stream_events(
    asking: Asks,
    request: Request,
    *,
    topics: Annotated[str, Query(max_length=2000, description="`jobs`, `nodes`, `run:ID`, with commas.")] = "jobs",
    last_event_id: Annotated[int | None, Header(ge=0, le=2**62, description="The last event seen.")] = None,
) -> StreamingResponse:
    """Server-sent events; with `Last-Event-ID` those that were missed come first.

    A stream ends after 15 minutes, and within seconds when its caller's token or session does.
    """
    hub: Hub = request.app.state.hub
    wanted, caller = topics_of(topics), asking.caller.token_id
    if not hub.counts.opened(caller):
        hint = "share one stream between all that read it"
        refuse_for_now("REST-016", "too many streams are open", hint=hint, wait=_RETRY)

    async def told() -> AsyncIterator[str]:
        figures = asking.service.figures
        with contextlib.nullcontext() if figures is None else figures.server.streaming():
            async for text in feed(asking.service, hub, wanted, last_event_id, lambda: still_works(asking)):
                yield text

    return EventStream(told(), lambda: hub.counts.closed(caller))


def still_works(asking: Asking) -> bool:
    """Whether the caller may still hear; while nobody can tell, there is nothing to hear either."""
    try:
        with asking.reading() as act:
            return is_still(act, asking.caller)
    except ExternalFailure:
        return True
