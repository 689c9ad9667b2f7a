"""Every guard is needed: with one of them switched off, at least one of these stories must go wrong.

The stories are short and fixed; the model and the small scope play many more.
"""

import json

import msgspec
import pytest
from fake_sinks import Directory, Table
from protocol import World, stop_at_failpoints
from protocol_stories import STORIES, expect, real_sinks
from tests.unit.connectors.sinks.under_test import Owner as OpenedSink
from tests.unit.connectors.sinks.under_test import ids, rows

from millstream.checkpoint import head as head_module
from millstream.checkpoint import manifest as manifest_module
from millstream.checkpoint import sealed as sealed_module
from millstream.checkpoint.coordinator import EpochCoordinator, Phase
from millstream.checkpoint.head import HEAD, HeadKeeper
from millstream.checkpoint.manifest import epoch_of, manifest_prefix
from millstream.checkpoint.stores import local as local_module
from millstream.connectors.files import encoders as files_encoders
from millstream.connectors.files import fences as files_fences
from millstream.connectors.files import rolling as files_rolling
from millstream.connectors.files import sink as files_sink
from millstream.connectors.jdbc import committer as jdbc_committer
from millstream.connectors.jdbc.committer import JdbcCommitter
from millstream.errors import CheckpointRefused, Fenced
from millstream.jobmaster.participants import SinkParticipant


def first_wrong(tmp_path, stories):
    """The first story that goes wrong."""
    for story in stories:
        try:
            story(tmp_path)
        except Exception:
            return story.__name__
    return None


# The guards, each with a way to switch it off.


def off(name):
    def switch(patch):
        patch.setattr(Table, "off", frozenset({name}))

    return switch


def replaced(owner, name, function):
    return lambda patch: patch.setattr(owner, name, function)


def head_is_overwritten(patch):
    def move(self, wanted):
        content = head_module.encode_head(wanted)
        self._store.swap(HEAD, self._store.read(HEAD), content)
        self._stored, self._head = content, wanted

    patch.setattr(HeadKeeper, "move", move)


def head_takes_any_token(patch):
    move = HeadKeeper.move

    def careless(self, wanted):
        found, self._head = self._head, None
        try:
            move(self, wanted)
        except BaseException:
            self._head = found
            raise

    patch.setattr(HeadKeeper, "move", careless)


def coordinator_ignores_the_digest(patch):
    adopt = EpochCoordinator._adopt

    def careless(self, staged):
        return adopt(self, msgspec.structs.replace(staged, digest=self.newest().digest))

    patch.setattr(EpochCoordinator, "_adopt", careless)


def coordinator_ignores_the_lease(patch):
    init = EpochCoordinator.__init__

    def careless(self, store, head, identity, participants, owner, **more):
        owner.is_watchful = False
        init(self, store, head, identity, participants, owner, **more)

    patch.setattr(EpochCoordinator, "__init__", careless)


def manifests_are_read_before_the_fence(patch):
    def careless(self, check):
        self._newest = newest = self.newest()
        for participant in self._participants.values():
            participant.fence()
        check(newest)
        self._remove_undecided()
        for name, participant in reversed(self._participants.items()):
            record = None if newest is None else newest.participants.get(name)
            participant.restore(None if newest is None else newest.epoch, None if record is None else record.handle)
        return newest

    patch.setattr(EpochCoordinator, "recover", careless)


def published_before_it_is_durable(patch):
    make_durable = EpochCoordinator._make_durable

    def careless(self, manifest):
        for participant in self._participants.values():
            participant.finish(manifest.epoch, success=True)
        make_durable(self, manifest)

    patch.setattr(EpochCoordinator, "_make_durable", careless)


def sources_acknowledge_first(patch):
    def careless(self, manifest):
        for participant in self._participants.values():
            participant.finish(manifest.epoch, success=True)
        self._enter(Phase.COMMITTED)

    patch.setattr(EpochCoordinator, "_publish", careless)


def next_epoch_does_not_wait(patch):
    def careless(self, epoch):
        self._owner.check()
        self.phase = Phase.STAGING

    patch.setattr(EpochCoordinator, "begin", careless)


def any_owner_removes(patch):
    def careless(self):
        head = self._head.current
        for name in self._store.names(manifest_prefix(head.lineage)):
            if head.epoch is None or epoch_of(name) > head.epoch:
                self._store.delete(name)

    patch.setattr(EpochCoordinator, "_remove_undecided", careless)


def retired_by_count(patch):
    def careless(self):
        head = self._head.current
        for name in self._store.names(manifest_prefix(head.lineage))[: -self._retained]:
            if name != head.manifest:
                self._store.delete(name)

    patch.setattr(EpochCoordinator, "_retire", careless)


def own_attempt_is_overwritten(patch):
    make_durable = EpochCoordinator._make_durable

    def careless(self, manifest):
        self._store.delete(manifest_module.manifest_name(manifest.lineage, manifest.epoch, manifest.token))
        make_durable(self, manifest)

    patch.setattr(EpochCoordinator, "_make_durable", careless)


def failure_drops(patch):
    finish = SinkParticipant.finish

    def careless(self, epoch, *, success):
        if not success:
            self._committer.discard(self._taken.pop(epoch, []))
            self._pending.pop(epoch, None)
        finish(self, epoch, success=success)

    patch.setattr(SinkParticipant, "finish", careless)


def only_the_last_is_published(patch):
    def careless(self, epoch, *, success):
        if success and epoch in self._pending:
            self._committer.publish(epoch, self._pending.pop(epoch))

    patch.setattr(SinkParticipant, "finish", careless)


def published_newest_first(patch):
    def careless(self, epoch, *, success):
        if success:
            for each in sorted((pending for pending in self._pending if pending <= epoch), reverse=True):
                self._committer.publish(each, self._pending[each])
                del self._pending[each]

    patch.setattr(SinkParticipant, "finish", careless)


def checksums_are_not_compared(patch):
    def careless(data, *, name, format):
        return json.loads(data)["content"]

    patch.setattr(sealed_module, "unseal", careless)


def files_are_not_synced(patch):
    patch.setattr(local_module, "write_synced", lambda path, content: path.write_bytes(content))


def directories_are_not_synced(patch):
    patch.setattr(local_module, "sync_directory", lambda path: None)


def data_files_are_not_synced(patch):
    patch.setattr(files_encoders, "sync_file", lambda path: None)


def data_directories_are_not_synced(patch):
    patch.setattr(files_rolling, "sync_directory", lambda path: None)


def files_ignore_the_fence(patch):
    read = files_fences.read_fences
    patch.setattr(files_fences, "read_fences", lambda lists: dict.fromkeys(read(lists), 0))


def jdbc_marker_is_written_apart(patch):
    write_marker = JdbcCommitter._write_marker

    def careless(self, cursor, epoch, transaction):
        is_new = write_marker(self, cursor, epoch, transaction)
        cursor.execute("COMMIT")
        cursor.execute("BEGIN IMMEDIATE")
        return is_new

    patch.setattr(JdbcCommitter, "_write_marker", careless)


def jdbc_ignores_the_digest(patch):
    write_marker = JdbcCommitter._write_marker

    def careless(self, cursor, epoch, transaction):
        try:
            return write_marker(self, cursor, epoch, transaction)
        except CheckpointRefused:
            return False

    patch.setattr(JdbcCommitter, "_write_marker", careless)


def files_ignore_the_digest(patch):
    def careless(root, content, **how):
        if files_sink.published_list(root, content) is None:
            publish_list(root, content, **how)

    publish_list = files_sink.publish_list
    patch.setattr(files_sink, "publish_list", careless)


GUARDS = {
    "the fence of a sink": off("fence"),
    "a start raises the fence": off("raise"),
    "the marker of a sink": off("marker"),
    "marker and rows in one transaction": off("transaction"),
    "the digest in a sink": off("digest"),
    "the count of staged rows": off("count"),
    "the head is compared and swapped": head_is_overwritten,
    "the token of the head": head_takes_any_token,
    "the lease is asked before a manifest is written": coordinator_ignores_the_lease,
    "the digest of a replay": coordinator_ignores_the_digest,
    "a durable epoch is adopted": replaced(EpochCoordinator, "_is_decided", lambda self, epoch: False),
    "the chain of epochs": replaced(EpochCoordinator, "_check_chain", lambda self, staged: None),
    "fences before the manifest is read": manifests_are_read_before_the_fence,
    "durable before published": published_before_it_is_durable,
    "sources acknowledge last": sources_acknowledge_first,
    "an unpublished epoch holds up the next": next_epoch_does_not_wait,
    "undecided manifests are removed": replaced(EpochCoordinator, "_remove_undecided", lambda self: None),
    "newer owners' manifests are not removed": any_owner_removes,
    "newer owners' manifests are not retired": retired_by_count,
    "an attempt with unknown outcome stays": own_attempt_is_overwritten,
    "failure keeps prepared work": failure_drops,
    "every pending epoch is published": only_the_last_is_published,
    "pending epochs are published in order": published_newest_first,
    "the same reports are not dropped": replaced(
        SinkParticipant, "discard", lambda self, messages: self._committer.discard(messages)
    ),
    "checksums": checksums_are_not_compared,
    "files are synced": files_are_not_synced,
    "directories are synced": directories_are_not_synced,
    "data files are synced": data_files_are_not_synced,
    "directories of data files are synced": data_directories_are_not_synced,
    "jdbc: the fence": replaced(jdbc_committer, "check_fence", lambda cursor, layout, owner: None),
    "jdbc: a start raises the fence": replaced(JdbcCommitter, "fence", lambda self: None),
    "jdbc: the marker": replaced(JdbcCommitter, "_write_marker", lambda self, cursor, epoch, transaction: True),
    "jdbc: marker and rows in one transaction": jdbc_marker_is_written_apart,
    "jdbc: the digest": jdbc_ignores_the_digest,
    "jdbc: count and hash of staged rows": replaced(JdbcCommitter, "_check_staged", lambda self, *given: None),
    "files: the fence": files_ignore_the_fence,
    "files: a start raises the fence": replaced(files_sink.FilesCommitter, "fence", lambda self: None),
    "files: the digest": files_ignore_the_digest,
    "files: data files are looked for": replaced(files_sink.FilesCommitter, "_check_present", lambda *given: None),
}


KINDS = ["insert", "upsert", "outbox", "files"]


@pytest.fixture(params=KINDS)
def sink(request, tmp_path):
    """A real sink."""
    return dict(zip(KINDS, real_sinks(tmp_path), strict=True))[request.param]


def test_a_late_owner_of_a_real_sink_cleans_nothing_up(sink):
    """It was stopped in the middle of its start; what it takes for leftovers belongs to the next owner by now."""
    late = OpenedSink(sink, token=1)
    new = OpenedSink(sink, token=2)
    waiting = new.prepare(0, rows(0))
    expect(Fenced, lambda: late.committer.recover(None))
    new.publish(0, waiting)
    assert len(ids(sink)) == 10


def test_a_late_restore_of_a_real_sink_closes_nothing(sink):
    """It was stopped between the fence of its lineage and closing the others; another restore replaced it meanwhile."""
    OpenedSink(sink, lineage="one", token=1).run(0, rows(0))
    late = OpenedSink(sink, lineage="two", token=2)
    new = OpenedSink(sink, lineage="three", token=3)
    new.committer.succeed([("one", 0), ("two", -1)], "keep")
    new.run(0, rows(100))
    expect(Fenced, lambda: late.committer.succeed([("one", 0)], "truncate" if sink.can_truncate else "keep"))
    new.run(1, rows(200))
    assert len(ids(sink)) == 30


@pytest.fixture(autouse=True)
def _places(monkeypatch):
    stop_at_failpoints(monkeypatch)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_with_all_guards_every_story_ends_well(story, tmp_path):
    story(tmp_path)


@pytest.mark.parametrize("guard", GUARDS)
def test_without_a_guard_a_story_goes_wrong(guard, tmp_path, monkeypatch):
    GUARDS[guard](monkeypatch)
    is_of_sinks = guard.startswith(("jdbc: ", "files: "))
    stories = [story for story in STORIES if ("sinks" in story.__name__) == is_of_sinks]
    found = first_wrong(tmp_path, stories)
    assert found is not None, f"nothing noticed that this guard is gone: {guard}"
    print(f"{guard}: {found}")


def test_both_kinds_of_sinks_are_played():
    assert {type(table) for table in World().tables.values()} == {Table, Directory}
