"""One stream as it is sent: first what was missed, then what happens, and an end before rights grow old."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from sqlalchemy import ColumnElement, or_, select
from starlette.concurrency import run_in_threadpool

from millstream.control.act import Act, reading
from millstream.control.lifecycle.states import OPEN
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.nodes.registration import nodes
from millstream.server.routes.nodes import NodeShown
from millstream.server.routes.showing import shown_summary
from millstream.server.service import Service
from millstream.server.streams.hub import Hub, settled_event
from millstream.server.streams.topics import Announced, told_of

_LOOK_SECONDS = 0.5
_MISSED = 1000
_OPEN_RUNS = 1000


async def feed(
    service: Service, hub: Hub, topics: frozenset[str], last: int | None, may_hear: Callable[[], bool]
) -> AsyncIterator[str]:
    """Text of the stream, for as long as `may_hear`. Whoever comes with the number of the last event seen gets what followed."""
    limits, start = service.limits, service.monotonic()
    yield "retry: 2000\n\n"
    async with hub.listening(topics) as listener:
        # The listener is there before the look at the database: what happens in between comes by both ways, and once.
        missed, seen = await run_in_threadpool(_missed, service, topics, last)
        for told in missed:
            yield told.text()
        said = looked = start
        while service.monotonic() - start < limits.stream_seconds and not hub.is_ending():
            if service.monotonic() - looked >= limits.recheck_seconds:
                looked = service.monotonic()
                if not await run_in_threadpool(may_hear):
                    return
            heard = await listener.next(min(_LOOK_SECONDS, limits.comment_seconds))
            if listener.overflowed:
                yield Announced(None, "reset", {"reason": "events came faster than they were read"}).text()
                return
            if heard is None and service.monotonic() - said >= limits.comment_seconds:
                said = service.monotonic()
                yield ": alive\n\n"
            elif heard is not None and (heard.id is None or heard.id > seen):
                yield heard.text()


def _missed(service: Service, topics: frozenset[str], last: int | None) -> tuple[list[Announced], int]:
    with reading(service.metadata) as act:
        newest = settled_event(act, is_sqlite=service.metadata.is_sqlite)
        if last is None or last > newest:
            return [_snapshot(act, topics, newest)], newest
        found = select(run_event).where(run_event.c.id > last, run_event.c.id <= newest)
        if "jobs" not in topics:
            found = found.where(_of_runs(topics))
        rows = list(act.connection.execute(found.order_by(run_event.c.id).limit(_MISSED + 1)))
        if len(rows) > _MISSED:
            reset = Announced(None, "reset", {"reason": f"more than {_MISSED} events were missed"})
            return [reset, _snapshot(act, topics, newest)], newest
        return [told_of(row) for row in rows], newest


def _of_runs(topics: frozenset[str]) -> ColumnElement[bool]:
    runs = [topic.removeprefix("run:") for topic in topics if topic.startswith("run:")]
    return run_event.c.execution_id.in_(runs)


def _snapshot(act: Act, topics: frozenset[str], newest: int) -> Announced:
    """How things are now: what follows is told by events."""
    runs = [topic.removeprefix("run:") for topic in topics if topic.startswith("run:")]
    wanted = [execution.c.execution_id.in_(runs)] + ([execution.c.status.in_(OPEN)] if "jobs" in topics else [])
    found = select(execution).where(or_(*wanted)).order_by(execution.c.id.desc()).limit(_OPEN_RUNS)
    data: dict[str, object] = {
        "runs": [
            {"job": row.job_name, **shown_summary(row).model_dump(mode="json")} for row in act.connection.execute(found)
        ]
    }
    if "nodes" in topics:
        data["nodes"] = [NodeShown.model_validate(each).model_dump(mode="json") for each in nodes(act)]
    return Announced(newest, "snapshot", data)
