"""The stream of events: read again from where it was cut."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx2
import msgspec

from millstream.client.problems import error_of
from millstream.client.transport import Transport
from millstream.client.values import StreamedEvent
from millstream.errors import ExternalFailure

_TIMEOUT = httpx2.Timeout(5.0, read=45.0)
"""The service says something every 15 seconds: a stream that is silent for longer is dead."""
_PAUSE = 2.0


def events(
    transport: Transport,
    topics: Sequence[str],
    *,
    last: int | None = None,
    patience: float = 60.0,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[StreamedEvent]:
    """Events without end; a service that is away for longer than `patience` seconds is an error.

    Raises:
        ExternalFailure: (REST-060) it does not come back.
    """
    silent_since: float | None = None
    while True:
        try:
            for event in _once(transport, topics, last):
                silent_since = None
                last = event.id if event.id is not None else last
                yield event
            silent_since = None
        except httpx2.HTTPError as problem:
            now = time.monotonic()
            silent_since = silent_since or now
            if now - silent_since > patience:
                msg = "the service does not answer"
                raise ExternalFailure(
                    msg, code="REST-060", found=str(problem), hint="check whether it runs"
                ) from problem
        pause(_PAUSE if silent_since is not None else 0.0)


def _once(transport: Transport, topics: Sequence[str], last: int | None) -> Iterator[StreamedEvent]:
    headers = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": str(last)})}
    with transport.stream("/events", {"topics": ",".join(topics)}, headers, _TIMEOUT) as answer:
        if answer.status_code >= 400:
            answer.read()
            raise error_of(answer)
        fields: dict[str, Any] = {}
        for line in answer.iter_lines():
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
            elif "data" in fields:
                yield _event(fields)
                fields = {}
            else:
                fields = {}


def _event(fields: dict[str, Any]) -> StreamedEvent:
    number = fields.get("id", "")
    return StreamedEvent(
        event=fields.get("event", "message"),
        data=msgspec.json.decode(fields["data"], type=dict[str, Any]),
        id=int(number) if number.isdigit() else None,
    )
