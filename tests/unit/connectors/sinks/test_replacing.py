"""Sinks that replace: the contract, and what is special about folders and tables."""

import threading

import pyarrow.dataset as ds
import pytest
from tests.unit.connectors.sinks.test_sink_files import FilesUnderTest
from tests.unit.connectors.sinks.under_test import Owner, ids, rows, seen

from millstream.connectors.files.reader import published_files, read_files
from millstream.errors import CheckpointRefused, InvalidStep
from millstream.model.change import ChangeKind
from millstream.model.schema import schema_of
from millstream.testing.sink_replacing import ReplacingContract, one_run


class TestFiles(ReplacingContract):
    @pytest.fixture(params=["parquet", "json"])
    def sink(self, request, tmp_path):
        return HeldBackFiles(tmp_path / "out", format=request.param, write="replace")


class TestPartitionedFiles(ReplacingContract):
    @pytest.fixture
    def sink(self, tmp_path):
        return HeldBackFiles(tmp_path / "out", partition_by="name", write="replace")


class TestDatabases(ReplacingContract):
    @pytest.fixture(params=["insert", "upsert"])
    def sink(self, request, open_sink):
        return open_sink(mode=request.param, write="replace")


class HeldBackFiles(FilesUnderTest):
    """A directory in which files wait for the end of their run, and those of the run before are kept."""

    def _staged(self):
        from millstream.connectors.files.published import every_list

        listed = {self.path / file["path"] for each in every_list(self.path) for file in each.files}
        return sorted(path for path in self.path.rglob("part-*") if path not in listed)


@pytest.fixture
def folder(tmp_path):
    return HeldBackFiles(tmp_path / "out", write="replace")


def plain(path):
    """What a reader of plain files sees."""
    return sorted(ds.dataset(path, format="parquet").to_table()["id"].to_pylist())


def test_readers_of_plain_files_follow_the_link(folder):
    for number, lineage in enumerate(("one", "two", "three")):
        owner = Owner(folder, lineage=lineage, token=number + 1)
        owner.run(0, rows(number * 100))
        assert not number or plain(folder.path / "current") == list(range(number * 100 - 100, number * 100 - 90))
        owner.run(1, ends=True)
        assert plain(folder.path / "current") == list(range(number * 100, number * 100 + 10))
    assert not list(folder.path.glob("*.parquet"))
    assert len(list(folder.path.glob("_runs/*/part-*"))) == 2, "the result that counts, and the one before it"


def test_the_link_leads_to_all_of_a_run_with_a_savepoint_inside(folder):
    Owner(folder).run(0, rows(0))
    second = Owner(folder, lineage="two", token=2, same_run=(("one", 0),))
    second.committer.succeed([("one", 0)], "refuse")
    second.run(0, rows(50), ends=True)
    assert plain(folder.path / "current") == [*range(10), *range(50, 60)]
    for lineage, token in (("three", 3), ("four", 4)):
        Owner(folder, lineage=lineage, token=token).run(0, rows(90), ends=True)
    assert plain(folder.path / "current") == list(range(90, 100))


def test_a_reader_in_the_middle_of_a_result_has_its_files_for_one_more_run(folder):
    one_run(folder)
    reading = published_files(folder.path)
    Owner(folder, lineage="two", token=2).run(0, rows(100), ends=True)
    assert all((folder.path / file.path).exists() for file in reading)
    Owner(folder, lineage="three", token=3).run(0, rows(200), ends=True)
    assert not any((folder.path / file.path).exists() for file in reading)


def test_a_reader_that_is_overtaken_twice_reads_the_newest(folder, monkeypatch):
    from millstream.connectors.files import reader

    one_run(folder)
    real, overtaken = reader._table, []

    def overtaking(path, listing):
        if not overtaken:
            overtaken.append(True)
            for token, lineage in ((2, "two"), (3, "three")):
                Owner(folder, lineage=lineage, token=token).run(0, rows(token * 100), ends=True)
        return real(path, listing)

    monkeypatch.setattr(reader, "_table", overtaking)
    assert sorted(read_files(folder.path)["id"].to_pylist()) == list(range(300, 310))


def test_rows_that_were_added_before_give_way_and_later_ones_are_added(tmp_path):
    adding, replacing = FilesUnderTest(tmp_path / "out"), HeldBackFiles(tmp_path / "out", write="replace")
    Owner(adding).run(0, rows(0))
    owner = Owner(replacing, lineage="two", token=2)
    owner.run(0, rows(100))
    assert seen(adding) == rows(0)
    owner.run(1, ends=True)
    assert seen(adding) == rows(100)
    Owner(adding, lineage="three", token=3).run(0, rows(200))
    assert ids(adding) == [*range(100, 110), *range(200, 210)]
    Owner(replacing, lineage="four", token=4).run(0, rows(300), ends=True)
    assert seen(adding) == rows(300)


def test_a_run_ends_in_the_way_it_began(tmp_path):
    adding, replacing = FilesUnderTest(tmp_path / "out"), HeldBackFiles(tmp_path / "out", write="replace")
    Owner(replacing).run(0, rows(0))
    with pytest.raises(CheckpointRefused) as refused:
        Owner(adding, token=2).run(1, rows(10))
    assert refused.value.code == "SINK-006"
    assert seen(adding) == []


def test_a_part_of_a_run_that_is_gone_is_missed(folder):
    first = Owner(folder)
    first.run(0, rows(0))
    first.run(1, ends=True)
    for token, lineage in ((2, "two"), (3, "three")):
        Owner(folder, lineage=lineage, token=token).run(0, rows(token * 100), ends=True)
    again = Owner(folder, lineage="again", token=4, same_run=(("one", 0),))
    with pytest.raises(CheckpointRefused) as refused:
        again.run(0, rows(50), ends=True)
    assert refused.value.code == "SINK-006"
    assert seen(folder) == rows(300)


def test_one_sink_of_a_folder_may_replace(folder):
    one_run(folder)
    with pytest.raises(CheckpointRefused) as refused:
        Owner(folder, job="other")
    assert (refused.value.code, "'out' of job 'job'" in refused.value.found) == ("FILES-036", True)
    (folder.path / "current").unlink()
    (folder.path / "current").mkdir()
    with pytest.raises(InvalidStep, match="no link of ours"):
        Owner(folder, token=2)


def test_what_is_half_written_at_a_swap_is_not_read(folder, monkeypatch):
    from millstream.connectors.files import results

    one_run(folder)
    real, views = results.write_synced, []

    def looking(path, content):
        for size in (len(content) // 2, len(content)):
            real(path, content[:size])
            views.append(ids(folder))

    monkeypatch.setattr(results, "write_synced", looking)
    Owner(folder, lineage="two", token=2).run(0, rows(100), ends=True)
    assert views == [list(range(20))] * 2
    assert ids(folder) == list(range(100, 110))


def test_a_damaged_result_is_refused(folder):
    one_run(folder)
    (path,) = (folder.path / "_millstream").glob("*.result")
    path.write_text(path.read_text().replace('"one", 1', '"one", 0'))
    with pytest.raises(CheckpointRefused) as refused:
        read_files(folder.path)
    assert refused.value.code == "FILES-013"


def test_a_missing_list_of_a_result_is_noticed(folder):
    one_run(folder)
    next((folder.path / "_millstream/runs").glob("*/0000000001.json")).unlink()
    with pytest.raises(CheckpointRefused) as refused:
        read_files(folder.path)
    assert refused.value.code == "FILES-012"


def test_what_is_part_of_a_result_is_not_cut_by_a_sink_that_adds(tmp_path):
    adding, replacing = FilesUnderTest(tmp_path / "out"), HeldBackFiles(tmp_path / "out", write="replace")
    one_run(replacing)
    fresh = Owner(adding, lineage="two", token=2)
    with pytest.raises(CheckpointRefused) as refused:
        fresh.committer.succeed([("one", 0)], "truncate")
    assert refused.value.code == "SINK-004"
    assert seen(adding) == rows(0, 20)


# Tables


def test_the_table_stays_the_same_one(open_sink):
    sink = open_sink(write="replace")
    one_run(sink)
    sink.execute('CREATE VIEW shown AS SELECT count(*) AS n FROM "target"')
    sink.execute('CREATE UNIQUE INDEX by_id ON "target" (id)')
    Owner(sink, lineage="two", token=2).run(0, rows(5, 3), ends=True)
    assert sink.execute("SELECT n FROM shown")[0][0] == 3


def test_of_rows_with_the_same_key_the_last_one_of_the_run_counts(open_sink):
    sink = open_sink(mode="upsert", write="replace")
    one_run(sink)
    first = Owner(sink, lineage="two", token=2)
    first.run(0, [{"id": 1, "name": "old", "amount": 0.0}, {"id": 2, "name": "kept", "amount": 0.0}])
    first.run(1, [{"id": 1, "name": "older", "amount": 0.0}])
    second = Owner(sink, lineage="three", token=3, same_run=(("two", 1),))
    second.committer.succeed([("one", 1), ("two", 1)], "refuse")
    second.run(0, [{"id": 1, "name": "new", "amount": 0.0}], ends=True)
    assert {row["id"]: row["name"] for row in seen(sink)} == {1: "new", 2: "kept"}


def test_rows_that_the_run_itself_deleted_are_not_in_its_result(open_sink):
    schema = schema_of("id long, name string, op string")
    sink = open_sink(mode="upsert", op_field="op", write="replace")
    for number, token in (("one", 1), ("two", 2)):
        owner = Owner(sink, lineage=number, token=token, schema=schema)
        owner.run(0, [{"id": n, "name": number, "op": ChangeKind.INSERT.value} for n in (1, 2, 3)])
        changes = [(2, None, ChangeKind.DELETE), (3, "new", ChangeKind.UPDATE)]
        owner.run(1, [{"id": id, "name": name, "op": op.value} for id, name, op in changes], ends=True)
        assert sorted(sink.execute('SELECT id, name FROM "target"')) == [(1, number), (3, "new")]


def test_a_savepoint_of_a_run_that_was_shown_is_not_gone_on_with(open_sink):
    sink = open_sink(write="replace")
    one_run(sink)
    again = Owner(sink, lineage="two", token=2, same_run=(("one", 0),))
    again.committer.succeed([("one", 0)], "keep")
    with pytest.raises(CheckpointRefused) as refused:
        again.run(0, rows(50))
    assert refused.value.code == "SINK-006"
    assert seen(sink) == rows(0, 20)


@pytest.mark.parametrize(("first", "then"), [("replace", "append"), ("append", "replace")])
def test_a_run_into_a_table_ends_in_the_way_it_began(open_sink, first, then):
    Owner(open_sink(write=first)).run(0, rows(0))
    sink = open_sink(write=then)
    before = seen(sink)
    with pytest.raises(CheckpointRefused) as refused:
        Owner(sink, token=2).run(1, rows(10), ends=then == "replace")
    assert refused.value.code == "SINK-006"
    assert seen(sink) == before


def test_two_that_replace_at_once_leave_one_result(open_sink):
    sink = open_sink(write="replace")
    one_run(sink)
    owners = [Owner(sink, lineage=f"l{number}") for number in range(4)]
    ready = [owner.prepare(0, rows(100 * number), ends=True) for number, owner in enumerate(owners, start=1)]
    works = [threading.Thread(target=owner.publish, args=(0, each)) for owner, each in zip(owners, ready, strict=True)]
    for work in works:
        work.start()
    for work in works:
        work.join(60)
    assert ids(sink)[0] % 100 == 0
    assert len(seen(sink)) == 10
