"""The hub and the streams of one process."""

import asyncio
import contextlib
import time
import types

import pytest
from sqlalchemy import insert
from tests.unit.server.world import NOON, job_body, plan_here, service_of, tokens_of

from millstream.control.act import acting
from millstream.control.dispatcher.definitions import Submission, submit
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.metadata.tables.runs import run_event
from millstream.control.settings import JobSettings
from millstream.server.app import create_app
from millstream.server.limits import Limits, StreamCounts
from millstream.server.streams.feed import feed
from millstream.server.streams.hub import Hub

QUICK = Limits(poll_seconds=0.01, comment_seconds=0.05, stream_seconds=30, stream_queue=5)


@pytest.fixture
def run(both):
    """A run with its first event."""
    definition = {"kind": "declarative", "document": job_body()["dag_definition"]}
    planned = plan_here(definition, code=None, parallelism=None)
    with acting(both) as act:
        submit(act, Submission(planned, definition, JobSettings()))
        return start(act, "orders", StartOptions()).execution_id


def event(run, seq, number=None):
    row = {"execution_id": run, "seq": seq, "time": NOON, "kind": "moved", "cause": "c", "actor": "a", "token": 0}
    return {**row, **({} if number is None else {"id": number})}


def write(metadata, *rows):
    with acting(metadata) as act:
        for row in rows:
            act.connection.execute(insert(run_event).values(**row))


async def told(stream, wanted, seconds=10):
    """The numbers of so many events."""
    found = []

    async def read():
        async for text in stream:
            lines = dict(line.split(": ", 1) for line in text.strip().splitlines() if not line.startswith(":"))
            if "event" in lines:
                found.append((lines["event"], lines.get("id")))
            if len(found) >= wanted:
                return

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(read(), seconds)
    return found


def listen(metadata, wanted, act, *, topics=("jobs",), last=None, limits=QUICK, seconds=10):
    """What a stream tells while `act` is done, once it has begun."""

    async def go():
        service = service_of(metadata, limits=limits)
        hub = Hub(service)
        async with hub.polling():
            stream = feed(service, hub, frozenset(topics), last, lambda: True)
            begun = await told(stream, 1) if last is None else []
            await asyncio.get_running_loop().run_in_executor(None, act)
            rest = await told(stream, wanted, seconds)
            await stream.aclose()
            return begun + rest

    return asyncio.run(go())


def test_first_how_things_are_then_what_happens(both, run):
    heard = listen(both, 2, lambda: write(both, event(run, 2), event(run, 3)))
    assert heard == [("snapshot", "1"), ("run_state", "2"), ("run_state", "3")]


def test_what_was_missed_comes_first(both, run):
    write(both, event(run, 2))
    heard = listen(both, 3, lambda: write(both, event(run, 3)), last=0)
    assert [number for _, number in heard] == ["1", "2", "3"]


def test_topics(both, run):
    heard = listen(both, 1, lambda: write(both, event(run, 2)), topics=("run:0123", "nodes"), seconds=0.5)
    assert heard == [("snapshot", "1")]
    heard = listen(both, 1, lambda: write(both, event(run, 3)), topics=(f"run:{run}",))
    assert heard[1] == ("run_state", "3")


def test_a_number_that_is_committed_late_is_not_passed_over(both, run):
    """PostgreSQL gives numbers out before they are committed: 5 may be there before 4."""
    if both.is_sqlite:
        pytest.skip("its writers take turns")

    def late():
        write(both, event(run, 2, 2), event(run, 3, 3))
        with acting(both) as slow:
            slow.connection.execute(insert(run_event).values(**event(run, 4, 4)))
            write(both, event(run, 5, 5))
            time.sleep(0.5)

    heard = listen(both, 4, late)
    assert [number for _, number in heard] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("last", [None, 1])
def test_a_stream_that_begins_before_a_smaller_number_is_committed_tells_it(both, run, last):
    if both.is_sqlite:
        pytest.skip("its writers take turns")
    with contextlib.ExitStack() as slow:
        act = slow.enter_context(acting(both))
        act.connection.execute(insert(run_event).values(**event(run, 2, 2)))
        write(both, event(run, 3, 3))
        heard = listen(both, 2, slow.close, last=last)
    assert [number for _, number in heard][-2:] == ["2", "3"]


def test_a_number_that_never_comes_is_given_up(both, run):
    heard = listen(both, 1, lambda: write(both, event(run, 2, 7)))
    assert heard == [("snapshot", "1"), ("run_state", "7")]


def test_a_reader_that_is_too_slow_begins_anew(both, run):
    heard = listen(both, 20, lambda: (write(both, *[event(run, n) for n in range(2, 20)]), time.sleep(0.5)))
    assert heard[-1] == ("reset", None)


def test_too_much_was_missed(both, run):
    write(both, *[event(run, number) for number in range(2, 1003)])
    heard = listen(both, 2, lambda: None, last=0)
    assert heard == [("reset", None), ("snapshot", "1002")]


def test_streams_end_in_time(both, run):
    heard = listen(both, 5, lambda: None, limits=Limits(stream_seconds=0.2, poll_seconds=0.01), seconds=5)
    assert heard == [("snapshot", "1")]


def test_ten_streams_of_one_caller():
    counts = StreamCounts(10)
    assert [counts.opened("a") for _ in range(11)] == [True] * 10 + [False]
    assert counts.opened("b")
    counts.closed("a")
    assert counts.opened("a")


def test_one_stream_too_many(admin, app):
    app.state.hub.counts = types.SimpleNamespace(opened=lambda _caller: False)
    answer = admin.get("/v1/events")
    assert (answer.status_code, answer.json()["code"]) == (429, "REST-016")
    assert answer.headers["retry-after"]


def test_who_leaves_before_the_stream_began_is_not_counted(both):
    """A client that is gone already: the server cancels its answer before the first word of it."""
    app = create_app(service_of(both, limits=QUICK))
    headers = [(b"authorization", f"Bearer {tokens_of(both)['viewer']}".encode())]
    scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET"}
    scope |= {
        "path": "/v1/events",
        "raw_path": b"/v1/events",
        "query_string": b"",
        "headers": headers,
        "scheme": "http",
    }
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "root_path": ""}

    async def go():
        for _ in range(3):
            messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

            async def receive(messages=messages):
                return next(messages, {"type": "http.disconnect"})

            async def send(_message):
                await asyncio.sleep(0)

            await app(dict(scope), receive, send)
        return dict(app.state.hub.counts._open)

    assert asyncio.run(go()) == {}
