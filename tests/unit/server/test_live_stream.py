"""What the stream tells besides the events of runs: how far they are, and what changed in jobs, operations and nodes."""

import asyncio
import contextlib
import itertools
import json
import time

import pytest
from sqlalchemy import insert, update
from tests.unit.server.test_stream import event, run, write  # noqa: F401  (a fixture)
from tests.unit.server.world import NOON, service_of

from millstream.control.act import acting
from millstream.control.dispatcher.definitions import change
from millstream.control.metadata.tables.nodes import node
from millstream.control.operations import done, open_operation
from millstream.control.refusals import UnknownName
from millstream.server.limits import Limits
from millstream.server.streams.feed import feed
from millstream.server.streams.hub import Hub
from millstream.server.streams.listener import Listener
from millstream.server.streams.topics import Announced

QUICK = Limits(poll_seconds=0.01, pulse_seconds=0.05, comment_seconds=0.05, stream_seconds=30)


class CountingChannel:
    """A node that has one run, and counts how often it is asked."""

    def __init__(self, known):
        self.known, self.epoch, self.asked = known, 0, []

    def pulse(self, run, after):  # noqa: F811
        self.asked.append((time.monotonic(), run))
        if run != self.known:
            msg = "the run does not go on here"
            raise UnknownName(msg, code="CTL-043")
        self.epoch += 1
        epochs = [{"epoch": number} for number in range(self.epoch + 1) if after is None or number > after]
        return {"progress": {"epochs": self.epoch}, "epochs": epochs[-1:] if after is None else epochs}


async def heard(stream, wanted, seconds=10.0):
    """So many events of the kinds that are wanted."""
    found = []

    async def read():
        async for text in stream:
            lines = dict(line.split(": ", 1) for line in text.strip().splitlines() if not line.startswith(":"))
            if lines.get("event") in wanted:
                found.append((lines["event"], json.loads(lines["data"]), lines.get("id")))
            if len(found) >= len(wanted):
                return

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(read(), seconds)
    return found


def listening(metadata, topics, wanted, *acts, channel=None, streams=1, seconds=10.0):
    """What so many streams, each of a process of its own, tell while acts follow each other."""

    async def one(hub, service):
        async with hub.polling():
            stream = feed(service, hub, frozenset(topics), None, lambda: True)
            await heard(stream, ["snapshot"])
            begun.release()
            told = await heard(stream, wanted, seconds)
            await stream.aclose()
            return told

    async def go():
        service = service_of(metadata, limits=QUICK, channel=channel)
        tasks = [asyncio.create_task(one(Hub(service), service)) for _ in range(streams)]
        for _ in tasks:
            await begun.acquire()
        for each in acts:
            await asyncio.get_running_loop().run_in_executor(None, each)
            await asyncio.sleep(0.2)
        return await asyncio.gather(*tasks)

    begun = asyncio.Semaphore(0)
    return asyncio.run(go())


def test_how_far_a_run_is(both, run):  # noqa: F811
    channel = CountingChannel(run)
    wanted = ["progress", "epoch", "progress", "epoch", "progress"]
    (told,) = listening(both, [f"run:{run}"], wanted, channel=channel)
    epochs = [data["epoch"] for name, data, _ in told if name == "epoch"]
    assert epochs == list(range(epochs[0], epochs[0] + len(epochs))), "none is left out, none is told twice"
    assert {data["run"] for _, data, _ in told} == {run}
    assert {number for _, _, number in told} == {None}, "resuming is for what is stored"


def test_a_node_is_asked_once_for_all_listeners_and_not_without_them(both, run):  # noqa: F811
    channel = CountingChannel(run)

    async def go():
        service = service_of(both, limits=QUICK, channel=channel)
        hub = Hub(service)
        async with hub.polling():
            await asyncio.sleep(0.3)
            assert channel.asked == []
            streams = [feed(service, hub, frozenset({f"run:{run}"}), None, lambda: True) for _ in range(5)]
            found = await asyncio.gather(*(heard(each, ["progress"] * 4) for each in streams))
            for each in streams:
                await each.aclose()
            await asyncio.sleep(0.2)
            count = len(channel.asked)
            await asyncio.sleep(0.3)
            assert len(channel.asked) == count
            return found

    found = asyncio.run(go())
    assert [len(each) for each in found] == [4] * 5
    times = [at for at, _ in channel.asked]
    assert all(later - earlier > 0.04 for earlier, later in itertools.pairwise(times))


def test_jobs_hear_nothing_of_progress_and_nodes_are_not_asked(both, run):  # noqa: F811
    channel = CountingChannel(run)
    (told,) = listening(both, ["jobs", "nodes"], ["progress"], channel=channel, seconds=0.4)
    assert (told, channel.asked) == ([], [])


def test_a_run_that_no_node_has_disturbs_nobody(both, run):  # noqa: F811
    channel = CountingChannel(run)
    (told,) = listening(both, ["run:0123", f"run:{run}"], ["progress"] * 2, channel=channel)
    assert {data["run"] for _, data, _ in told} == {run}


def test_a_job_that_is_changed(both, run):  # noqa: F811
    def switched_off():
        with acting(both, "ada") as act:
            change(act, "orders", enabled=False)

    for told in listening(both, ["jobs"], ["job"], switched_off, streams=2):
        ((_, data, number),) = told
        assert (data["job"], data["enabled"], data["changed"], number) == ("orders", False, ["enabled"], None)


def test_an_operation_from_its_beginning_to_its_end(both, run):  # noqa: F811
    asked = []

    def opened():
        with acting(both, "ada") as act:
            asked.append(open_operation(act, "dump", run))

    def ended():
        with acting(both) as act:
            done(act, asked[0], text="x")

    for told in listening(both, [f"run:{run}"], ["operation"] * 2, opened, ended, streams=2):
        assert [(data["id"], data["status"]) for _, data, _ in told] == [(asked[0], "pending"), (asked[0], "done")]


def test_a_node_that_comes_and_falls_silent(both, clock, run):  # noqa: F811
    row = {"id": "n1", "boot": "b", "slots": 2, "labels": {}, "state": "ACTIVE", "version": "0", "details": {}}
    times = {"heartbeat_at": NOON, "started_at": NOON}

    def comes():
        with acting(both) as act:
            act.connection.execute(insert(node).values(**row, **times))

    def is_heard_of():
        with acting(both) as act:
            act.connection.execute(update(node).values(heartbeat_at=act.now))

    wanted = ["node", "node", "alert", "node", "alert"]
    (told,) = listening(both, ["nodes"], wanted, comes, lambda: clock.forward(20), is_heard_of)
    assert [name for name, _, _ in told] == wanted
    assert [data["is_firing"] for name, data, _ in told if name == "alert"] == [True, False]
    assert "n1" in told[2][1]["message"]


def test_progress_goes_first_when_a_reader_is_slow():
    async def go():
        listener = Listener(3, frozenset({"jobs", "run:a"}))
        for number in range(3):
            listener.tell(Announced(None, "progress", {"n": number}, "a"))
        listener.tell(Announced(1, "run_state", {}, "a"))
        listener.tell(Announced(None, "progress", {"n": 3}, "b", frozenset()))
        listener.tell(Announced(2, "run_state", {}, "b"))
        assert not listener.overflowed
        listener.tell(Announced(3, "run_state", {}, "b"))
        listener.tell(Announced(None, "progress", {"n": 4}, "a"))
        assert not listener.overflowed
        told = [await listener.next(0.1) for _ in range(4)]
        assert [each and each.id for each in told] == [1, 2, 3, None]
        for number in range(4):
            listener.tell(Announced(number, "run_state", {}, "b"))
        return listener.overflowed

    assert asyncio.run(go())


def test_resuming_tells_stored_events_exactly_although_others_are_told_too(both, run):  # noqa: F811
    write(both, event(run, 2), event(run, 3))

    async def go():
        service = service_of(both, limits=QUICK, channel=CountingChannel(run))
        hub = Hub(service)
        async with hub.polling():
            stream = feed(service, hub, frozenset({f"run:{run}", "jobs"}), 1, lambda: True)
            first = await heard(stream, ["run_state"] * 2)
            await heard(stream, ["progress"] * 2)
            await asyncio.get_running_loop().run_in_executor(None, write, both, event(run, 4))
            last = await heard(stream, ["run_state"])
            await stream.aclose()
            return [number for _, _, number in first + last]

    assert asyncio.run(go()) == ["2", "3", "4"]


@pytest.mark.parametrize("topic", ["jobs", "nodes"])
def test_the_first_look_tells_of_no_change(both, run, topic):  # noqa: F811
    (told,) = listening(both, [topic], ["job", "operation", "node"], seconds=0.3)
    assert told == []
