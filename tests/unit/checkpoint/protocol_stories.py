"""Short, fixed stories of the epoch protocol; each ends with an error when something went wrong."""

import json
import os
from pathlib import Path

from protocol import Owner, World, stored_manifests
from stepping import Process
from tests.unit.connectors.sinks.databases import SqliteUnderTest
from tests.unit.connectors.sinks.test_sink_files import FilesUnderTest
from tests.unit.connectors.sinks.under_test import Owner as OpenedSink
from tests.unit.connectors.sinks.under_test import ids, rows

from millstream.checkpoint.head import HEAD
from millstream.checkpoint.stores.local import LocalStore
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced, MillstreamError
from millstream.model.ids import Epoch


def expect(kind, work):
    try:
        work()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def fresh(tmp_path):
    folder = tmp_path / f"story{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    return folder


def story_of_a_takeover(_):
    """An owner is stopped at each place of an epoch; another takes over and works on; the first goes on."""
    for places in range(60):
        world = World()
        old = world.owner()
        old.epoch()
        process = Process(lambda old=old: [old.epoch(), old.epoch()])
        is_over = process.advance(places)
        new = world.owner()
        new.epoch()
        process.advance() if not is_over else None
        assert process.error is None or isinstance(process.error, Fenced), process.error
        world.check()
        new.epoch()
        world.heal()
        world.check_rows_are_the_oracle()
        if is_over:
            return
    raise AssertionError("the epochs never ended")


def story_of_a_slow_start(_):
    """An owner is stopped at each place of its start; another takes over; the first goes on starting."""
    for places in range(40):
        world = World()
        world.owner().epoch()
        process = Process(Owner(world).start)
        is_over = process.advance(places)
        new = world.owner()
        new.epoch()
        new.epoch()
        process.advance() if not is_over else None
        assert process.error is None or isinstance(process.error, Fenced), process.error
        world.check()
        new.epoch()
        world.heal()
        if is_over:
            return
    raise AssertionError("the start never ended")


def story_of_a_fence_that_comes_first(_):
    """The first owner is about to publish what is durable; the second has only fenced when the first goes on."""
    world = World()
    old = world.owner()
    old.epoch()
    process = Process(old.epoch)
    while process.at != "sink.publish":
        process.advance(0 if not process.at else 1)
    new = Owner(world)
    start = Process(new.start)
    while world.log[-1] != ("fence", "second", new.token):
        start.advance(1)
    process.advance()
    assert isinstance(process.error, Fenced), "an owner published behind a raised fence"
    start.advance()
    assert start.error is None
    world.heal()
    world.check_rows_are_the_oracle()


def story_of_crashes(_):
    """The process ends at each place of an epoch; the next one finishes or forgets it."""
    for places in range(60):
        world = World()
        world.owner().epoch()
        owner = world.owner()
        process = Process(lambda owner=owner: [owner.epoch(), owner.epoch()])
        is_over = process.advance(places)
        process.kill()
        world.check()
        world.heal()
        world.check_rows_are_the_oracle()
        if is_over:
            return
    raise AssertionError("the epochs never ended")


def story_of_failures(_):
    """Each thing fails once, done or not done; the same process tries again, or the next one."""
    what = ["create", "swap", "publish"]
    for fault in [*what, *(f"before {each}" for each in what), "before acknowledge"]:
        for tries_again in (False, True):
            world = World()
            owner = world.owner()
            owner.epoch()
            world.faults = [fault]
            expect(ExternalFailure, owner.epoch)
            if tries_again:
                try:
                    owner.epoch()
                except ExternalFailure as problem:
                    assert problem.code == "CKPT-015"
            world.check()
            world.heal()
            world.check_rows_are_the_oracle()


def story_of_two_failures_in_a_row(_):
    """A durable epoch could not be published; the process dies while it makes the next one durable."""
    for places in range(40):
        world = World()
        owner = world.owner()
        owner.epoch()
        world.faults = ["before publish"]
        expect(ExternalFailure, owner.epoch)
        process = Process(owner.epoch)
        is_over = process.advance(places)
        process.kill()
        world.heal()
        world.check_rows_are_the_oracle()
        if is_over:
            return


def story_of_a_second_try_that_dies(_):
    """The head was moved but the reply was lost; the process tries again and dies on the way."""
    for places in range(40):
        world = World()
        owner = world.owner()
        owner.epoch()
        world.faults = ["swap"]
        expect(ExternalFailure, owner.epoch)
        process = Process(owner.epoch)
        is_over = process.advance(places)
        process.kill()
        world.check()
        world.heal()
        world.check_rows_are_the_oracle()
        if is_over:
            return


def story_of_pending_epochs(_):
    """Several epochs wait; finishing the last publishes all, in order."""
    world = World()
    owner = world.owner()
    participant = owner.coordinator._participants["first"]
    for epoch in (0, 1, 2):
        participant.save(Epoch(epoch), owner.staged(epoch).messages["first"])
        participant.prepare(Epoch(epoch))
    participant.finish(Epoch(2), success=True)
    assert [epoch for what, _, epoch in world.log if what == "published"] == [0, 1, 2]


def story_of_replays(_):
    """A durable epoch comes again, with the same rows and with others; so do the same reports."""
    world = World()
    owner = world.owner()
    owner.epoch()
    owner.epoch()
    owner.repeat()
    owner.epoch(1)
    again = world.owner()
    again.epoch(1)
    again.epoch()
    world.check_all_shown()
    expect(CheckpointRefused, lambda: again.epoch(2, digest="other", rows=["x"]))
    handle = {"digest": "other", "rows": 0, "parts": []}
    expect(CheckpointRefused, lambda: again.committers["first"].publish(1, handle))
    expect(CheckpointRefused, lambda: world.owner().epoch(3, follows="something else"))
    expect(CheckpointRefused, lambda: world.owner().epoch(5))
    world.heal()
    world.check_rows_are_the_oracle()


def story_of_lost_staging(_):
    """Staged rows vanish before their epoch is published: it is not shown without them."""
    world = World()
    owner = world.owner()
    owner.epoch()
    world.faults = ["before publish"]
    expect(ExternalFailure, owner.epoch)
    world.tables["first"].staged.clear()
    expect(CheckpointRefused, world.owner)
    world.check()


def story_of_leftovers(_):
    """A manifest that the head never named is removed, and nothing else is, by an owner that still is one or not."""
    world = World()
    first = world.owner(retained=1)
    first.epoch()
    world.faults = ["before swap"]
    expect(ExternalFailure, first.epoch)
    assert stored_manifests(world) == [(0, 1), (1, 1)]
    second = world.owner()
    assert stored_manifests(world) == [(0, 1)]
    second.epoch()
    world.faults = ["before swap"]
    expect(ExternalFailure, second.epoch)
    first.coordinator._retire()
    assert (1, 2) in stored_manifests(world)
    world.heal()


def story_of_the_order_of_a_start(_):
    """Every sink is fenced before the manifest is read and anything is published."""
    world = World()
    world.owner().epoch()
    world.log.clear()
    read = world.store.read

    def watched(name):
        if name.startswith("manifests/"):
            world.log.append(("read", name, 0))
        return read(name)

    world.store.read = watched
    world.owner()
    order = [what for what, _, _ in world.log]
    assert order[:3] == ["fence", "fence", "read"], order


def story_of_a_watchful_owner(_):
    """Whoever notices that it lost the lease writes nothing more."""
    world = World()
    old = world.owner(is_watchful=True)
    old.coordinator.begin(Epoch(0))
    staged = old.staged(0)
    world.owner()
    expect(Fenced, lambda: old.coordinator.commit(staged))
    assert stored_manifests(world) == []


def story_of_a_late_reader(_):
    """An owner sleeps after it got its token and before it reads the head."""
    world = World()
    late = Owner(world)
    new = world.owner()
    new.epoch()
    expect(Fenced, late.start)
    assert world.head.token == new.token
    new.epoch()
    world.check_all_shown()


def story_of_damage(tmp_path):
    """A manifest or a head that was changed is not believed."""
    root = fresh(tmp_path)
    world = World(LocalStore(root))
    world.owner().epoch()
    for path in (root / world.head.manifest, root / HEAD):
        content = path.read_bytes()
        changed = json.loads(content)
        changed["content"]["epoch"] = 7
        path.write_bytes(json.dumps(changed).encode())
        expect(CheckpointRefused, Owner(world).start)
        path.write_bytes(content)
    newer = json.loads((root / HEAD).read_bytes())
    newer["format"] += 1
    (root / HEAD).write_bytes(json.dumps(newer).encode())
    expect(CheckpointRefused, Owner(world).start)


def story_of_power_loss(tmp_path):
    """Whatever is published was synced before: the file's content, then the name in its directory."""
    root = fresh(tmp_path)
    synced, fsync = [], os.fsync

    def watched(handle):
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    store = LocalStore(root)
    os.fsync = watched
    try:
        store.create("a/1", b"x")
        store.swap("a/1", b"x", b"y")
        sink = FilesUnderTest(root / "out")
        OpenedSink(sink).run(0, rows(0))
    finally:
        os.fsync = fsync
    folder = root / "a"
    files = [path.parent for path in synced if path != folder and path.parent == folder]
    assert (files, synced.count(folder)) == ([folder] * 2, 2)
    data = next(path for path in (root / "out").glob("part-*"))
    assert data in synced, "a data file was published before the disk had it"
    assert root / "out" in synced[synced.index(data) :], "a data file was published before the disk had its name"


# Stories of real sinks.


def real_sinks(tmp_path):
    for mode in ("insert", "upsert", "outbox"):
        yield SqliteUnderTest(f"sqlite:///{fresh(tmp_path)}/{mode}.db", mode=mode)
    yield FilesUnderTest(fresh(tmp_path) / "out")


def story_of_fencedreal_sinks(tmp_path):
    """A later owner fences, publishes nothing yet, and the earlier one tries to."""
    for sink in real_sinks(tmp_path):
        old = OpenedSink(sink, token=1)
        old.run(0, rows(0))
        waiting = old.prepare(1, rows(100))
        OpenedSink(sink, token=2)
        expect(Fenced, lambda old=old, waiting=waiting: old.publish(1, waiting))
        assert len(ids(sink)) == 10


def story_of_sinks_that_publish_twice(tmp_path):
    """The same epoch again changes nothing; with other rows it is refused."""
    for sink in real_sinks(tmp_path):
        owner = OpenedSink(sink)
        transaction = owner.run(0, rows(0))
        owner.publish(0, transaction)
        owner.publish(0, owner.prepare(0, rows(0), attempt="b"))
        assert ids(sink) == list(range(10))
        other = owner.prepare(0, rows(50), attempt="c")
        expect(CheckpointRefused, lambda owner=owner, other=other: owner.publish(0, other))
        assert ids(sink) == list(range(10))


def story_of_sinks_that_lose_staging(tmp_path):
    """What was staged is not all there any more: nothing is shown, and no marker is left."""
    for sink in real_sinks(tmp_path):
        owner = OpenedSink(sink)
        transaction = owner.prepare(0, rows(0), rows(20))
        sink.lose_staged()
        for _ in range(2):
            expect(MillstreamError, lambda owner=owner, transaction=transaction: owner.publish(0, transaction))
        assert ids(sink) == []


STORIES = [found for name, found in list(globals().items()) if name.startswith("story_")]
