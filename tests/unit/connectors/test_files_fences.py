import json

import pytest
from tests.unit.connectors.reading import opened, read
from tests.unit.connectors.sinks.test_sink_files import FilesUnderTest
from tests.unit.connectors.sinks.under_test import SCHEMA, Owner, ids, rows, seen

from millstream.checkpoint import failpoint
from millstream.connectors.files import reader
from millstream.connectors.files.discovery import PublishedLists
from millstream.connectors.files.lists import read_list
from millstream.connectors.files.reader import read_files
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced


@pytest.fixture
def sink(tmp_path):
    return FilesUnderTest(tmp_path / "out")


def epochs(sink, count, **who):
    owner = Owner(sink, **who)
    for epoch in range(count):
        owner.run(epoch, rows(epoch * 10))
    return owner


def lists(sink):
    return sorted((sink.path / "_millstream").glob("*/*.json"))


def test_a_list_names_the_token_of_its_run(sink):
    Owner(sink, token=3).run(0, rows(0))
    Owner(sink, token=4).run(1, rows(10))
    assert [read_list(path).token for path in lists(sink)] == [3, 4]


def test_every_epoch_has_a_list_and_readers_skip_empty_ones(sink):
    owner = Owner(sink)
    for epoch in range(4):
        owner.run(epoch, rows(epoch * 10) if epoch % 2 else [])
    assert [read_list(path).epoch for path in lists(sink)] == [0, 1, 2, 3]
    assert len(seen(sink)) == 20


def test_a_stale_owner_sweeps_nothing(sink):
    stale = Owner(sink, token=1)
    fresh = Owner(sink, token=2)
    transaction = fresh.prepare(0, rows(0))
    with pytest.raises(Fenced):
        stale.committer.recover(None)
    with pytest.raises(Fenced):
        stale.committer.succeed([("two", 0)], "truncate")
    fresh.publish(0, transaction)
    assert seen(sink) == rows(0)


def test_a_stale_owner_leaves_discarded_files_to_the_later_one(sink):
    stale = Owner(sink, token=1)
    messages = stale.stage(0, rows(0))
    transaction = stale.committer.prepare(0, messages)
    fresh = Owner(sink, token=2)
    stale.committer.discard(messages)
    fresh.publish(0, transaction)
    assert seen(sink) == rows(0)


def test_an_epoch_published_once_needs_its_files_no_more(sink):
    owner = Owner(sink)
    transaction = owner.run(0, rows(0))
    (sink.path / transaction["files"][0]["path"]).unlink()
    owner.publish(0, transaction)
    with pytest.raises(ExternalFailure):
        read_files(sink.path)


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", None])
def test_damaged_fences_are_refused(sink, damage):
    owner = Owner(sink, token=5)
    path = sink.path / "_millstream" / "fences.json"
    path.write_bytes(path.read_bytes().replace(b"5]", b"4]") if damage is None else damage)
    with pytest.raises(CheckpointRefused) as refused:
        owner.committer.fence()
    assert refused.value.code == "FILES-011"


def as_before_fences(sink):
    """The directory as it was written before there were fences, checksums and tags."""
    (sink.path / "_millstream" / "fences.json").unlink()
    for path in lists(sink):
        data = json.loads(path.read_text())
        del data["token"], data["checksum"], data["follows"]
        old = path.parent.parent / "out-one" / path.name
        old.parent.mkdir(exist_ok=True)
        old.write_text(json.dumps(data))
        path.unlink()


def test_an_old_directory_goes_on(sink):
    owner = epochs(sink, 2)
    last = owner.prepare(2, rows(20))
    owner.publish(2, last)
    as_before_fences(sink)
    fresh = Owner(sink, token=1)
    fresh.publish(2, last)
    with pytest.raises(CheckpointRefused):
        fresh.run(1, rows(70), attempt="b")
    fresh.committer.recover(2)
    fresh.run(3, rows(30))
    assert seen(sink) == rows(0, 40)
    Owner(sink, job="other").run(0, rows(100))
    assert len(seen(sink)) == 50


def test_an_old_directory_is_truncated(sink):
    epochs(sink, 4)
    as_before_fences(sink)
    Owner(sink, lineage="two").committer.succeed([("one", 1)], "truncate")
    assert seen(sink) == rows(0, 20)
    assert sink.staged() == 0


def test_other_rows_of_the_same_size_are_refused(tmp_path):
    sink = FilesUnderTest(tmp_path / "out", format="json")
    owner = Owner(sink)
    first = owner.run(0, rows(12, 1))
    other = owner.prepare(0, rows(16, 1), attempt="b")
    assert first["files"][0]["bytes"] == other["files"][0]["bytes"]
    with pytest.raises(CheckpointRefused) as refused:
        owner.publish(0, other)
    assert refused.value.code == "SINK-001"


# Succession


def test_a_refusal_counts_and_names_the_choices_and_changes_nothing(sink):
    old = epochs(sink, 4)
    with pytest.raises(CheckpointRefused) as refused:
        Owner(sink, lineage="two").committer.succeed([("one", 1)], "refuse")
    assert refused.value.found == "2 epochs with 20 rows"
    assert refused.value.known == "refuse, keep, truncate"
    assert "--on-newer-output" in refused.value.hint
    old.run(4, rows(40))
    assert seen(sink) == rows(0, 50)


def test_empty_epochs_beyond_the_history_are_no_output(sink):
    old = epochs(sink, 2)
    old.run(2, [])
    Owner(sink, lineage="two").committer.succeed([("one", 1)], "refuse")
    with pytest.raises(Fenced):
        old.run(3, rows(30))


def test_a_lineage_of_the_history_that_never_wrote_here_is_closed_too(sink):
    Owner(sink, lineage="two").committer.succeed([("one", 5)], "refuse")
    with pytest.raises(Fenced, match="'one' was succeeded"):
        Owner(sink, lineage="one", token=9)


def test_a_lineage_that_has_fenced_and_published_nothing_is_closed_too(sink):
    idle = Owner(sink, lineage="idle", token=9)
    Owner(sink, lineage="two").committer.succeed([], "refuse")
    with pytest.raises(Fenced):
        idle.run(0, rows(0))
    assert seen(sink) == []


def test_truncating_keeps_staged_files_within_the_history(sink):
    old = epochs(sink, 2)
    old.stage(1, rows(10), attempt="within")
    old.stage(2, rows(20), attempt="beyond")
    Owner(sink, lineage="two").committer.succeed([("one", 1)], "truncate")
    assert [path.name.split("-")[1] for path in sink._staged()] == ["00000001"]


@pytest.mark.parametrize("place", ["files_closed", "files_withdrawn"])
@pytest.mark.parametrize("newer", ["keep", "truncate"])
def test_a_succession_cut_short_is_finished_by_the_next(sink, monkeypatch, place, newer):
    old = epochs(sink, 4)
    old.stage(4, rows(40))
    fresh = Owner(sink, lineage="two", token=2)
    failpoint.reset()
    monkeypatch.setenv(failpoint.VARIABLE, f"{place}:1:raise")
    with pytest.raises(ExternalFailure):
        fresh.committer.succeed([("one", 1)], newer)
    monkeypatch.delenv(failpoint.VARIABLE)
    with pytest.raises(Fenced):
        old.committer.fence()
    next_owner = Owner(sink, lineage="two", token=3)
    next_owner.committer.succeed([("one", 1)], newer)
    assert seen(sink) == rows(0, 20 if newer == "truncate" else 40)
    assert sink.staged() == 0


def test_lineages_follow_each_other(sink):
    epochs(sink, 2)
    second = Owner(sink, lineage="two")
    second.committer.succeed([("one", 1)], "refuse")
    second.run(2, rows(20))
    second.run(3, rows(30))
    third = Owner(sink, lineage="three")
    third.committer.succeed([("one", 1), ("two", 2)], "truncate")
    third.run(3, rows(90))
    assert ids(sink) == [*range(30), *range(90, 100)]
    with pytest.raises(Fenced):
        second.run(4, rows(40))


# Readers while lists are withdrawn


def truncate_after(monkeypatch, sink, owner, name):
    """Withdraw epoch 1 right after a function has returned its lists."""
    real = getattr(owner, name)

    def then_truncated(*args):
        found = real(*args)
        Owner(sink, lineage="two", token=2).committer.succeed([("one", 0)], "truncate")
        return found

    monkeypatch.setattr(owner, name, then_truncated)


def test_reading_while_lists_are_withdrawn_gives_whole_epochs(sink, monkeypatch):
    epochs(sink, 2)
    truncate_after(monkeypatch, sink, reader, "_lists")
    assert sorted(read_files(sink.path)["id"].to_pylist()) == list(range(10))


def test_lists_that_vanish_while_they_are_listed_are_skipped(sink, monkeypatch):
    epochs(sink, 2)
    gone = lists(sink)[1]
    found = PublishedLists(sink.path)
    monkeypatch.setattr("millstream.connectors.files.published._read_present", _unlinking(gone))
    assert [each.epoch for each in found.new()] == [0]


def _unlinking(gone):
    from millstream.connectors.files import published as module

    real = module._read_present

    def read_present(path):
        gone.unlink(missing_ok=True)
        return real(path)

    return read_present


def test_a_source_does_not_take_files_of_withdrawn_lists(sink, monkeypatch, tmp_path):
    epochs(sink, 2)
    source, read_split = opened(sink.path, SCHEMA, tmp_path / "log", watch=True)
    truncate_after(monkeypatch, sink, source._discovery._lists, "new")
    end = source.advance(source.initial(), 1000).position
    assert [row["id"] for row in read(source, read_split, {"unit": 0}, end)] == list(range(10))


def test_a_source_that_has_taken_withdrawn_files_is_refused_them(sink, tmp_path):
    epochs(sink, 2)
    source, read_split = opened(sink.path, SCHEMA, tmp_path / "log", watch=True)
    end = source.advance(source.initial(), 1000).position
    Owner(sink, lineage="two", token=2).committer.succeed([("one", 0)], "truncate")
    with pytest.raises(ExternalFailure) as refused:
        read(source, read_split, {"unit": 0}, end)
    assert refused.value.code == "FILES-001"
