import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.connectors.reading import SCHEMA, everything, opened, read

from millstream.errors import CheckpointRefused, ExternalFailure, InvalidSchema, InvalidStep
from millstream.model.schema import schema_of


def rows(*numbers):
    return [{"n": n, "name": f"name {n}"} for n in numbers]


def write_parquet(path, content, mtime, **options):
    pq.write_table(pa.Table.from_pylist(content, SCHEMA.arrow), path, **options)
    os.utime(path, (mtime, mtime))


@pytest.fixture
def three(tmp_path):
    """Three files whose order of time is not the order of their names."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_parquet(folder / "c.parquet", rows(0, 1), 100)
    write_parquet(folder / "a.parquet", rows(2, 3), 200)
    write_parquet(folder / "b.parquet", rows(4, 5), 200)
    return folder


@pytest.mark.parametrize("credit", [1, 3, 100])
def test_files_are_read_by_time_then_name_at_any_credit(three, credit):
    assert everything(*opened(three), credit) == rows(*range(6))


def test_hidden_and_empty_files_are_not_data(three):
    (three / "_SUCCESS").write_text("x")
    (three / ".part.parquet").write_text("x")
    (three / "empty.parquet").write_text("")
    (three / "_tmp").mkdir()
    write_parquet(three / "_tmp" / "d.parquet", rows(9), 50)
    assert everything(*opened(three, recursive=True)) == rows(*range(6))


def test_pattern_and_recursive_choose_files(three):
    (three / "deep").mkdir()
    write_parquet(three / "deep" / "d.parquet", rows(9), 300)
    assert everything(*opened(three, pattern="[ac]*")) == rows(0, 1, 2, 3)
    assert everything(*opened(three, recursive=True, pattern="d*")) == rows(9)


def test_a_single_file_is_a_source(three):
    assert everything(*opened(three / "a.parquet")) == rows(2, 3)


def test_a_missing_directory_is_named(tmp_path):
    enumerator, _ = opened(tmp_path / "nowhere")
    with pytest.raises(ExternalFailure, match="nowhere"):
        enumerator.advance(enumerator.initial(), 1)


def test_lag_and_credit_count_rows(three):
    enumerator, _ = opened(three)
    advance = enumerator.advance(enumerator.initial(), 3)
    assert (advance.position, advance.lag, advance.finished) == ({"unit": 2}, 2, False)
    assert enumerator.advance(advance.position, 0).position == advance.position


def test_a_reopened_source_replays_the_log_without_listing(three, tmp_path):
    log = tmp_path / "log"
    first, _ = opened(three, log_dir=log)
    end = first.advance(first.initial(), 1000)
    write_parquet(three / "0.parquet", rows(9), 50)
    second, reader = opened(three, log_dir=log)
    assert second.splits({"unit": 0}, end.position) == first.splits({"unit": 0}, end.position)
    assert second.advance(second.initial(), 1000).position == end.position
    assert read(second, reader, {"unit": 0}, end.position) == rows(*range(6))


def test_a_torn_line_of_the_log_is_found_again(three, tmp_path):
    log = tmp_path / "log"
    first, _ = opened(three, log_dir=log, watch=True)
    whole = first.advance(first.initial(), 1000)
    file = log / "files-000001.jsonl"
    expected = file.read_bytes()
    file.write_bytes(expected[:-20])
    second, reader = opened(three, log_dir=log, watch=True)
    assert second.advance(second.initial(), 1000).position == whole.position
    assert file.read_bytes() == expected
    assert read(second, reader, {"unit": 0}, whole.position) == rows(*range(6))


def test_a_damaged_log_and_a_lost_log_are_refused(three, tmp_path):
    log = tmp_path / "log"
    first, _ = opened(three, log_dir=log)
    end = first.advance(first.initial(), 1000).position
    file = log / "files-000001.jsonl"
    file.write_bytes(b"?" + file.read_bytes())
    with pytest.raises(CheckpointRefused, match="line 1"):
        opened(three, log_dir=log)
    file.unlink()
    lost, _ = opened(three, log_dir=log)
    with pytest.raises(CheckpointRefused, match="unit 3"):
        lost.splits({"unit": 0}, end)


def test_watching_finds_new_files(three, tmp_path):
    enumerator, reader = opened(three, log_dir=tmp_path / "log", watch=True)
    first = enumerator.advance(enumerator.initial(), 1000)
    assert not first.finished
    assert enumerator.advance(first.position, 1000).position == first.position
    write_parquet(three / "0.parquet", rows(9), 50)
    second = enumerator.advance(first.position, 1000)
    assert read(enumerator, reader, first.position, second.position) == rows(9)


def test_watching_waits_for_the_directory(tmp_path):
    enumerator, _ = opened(tmp_path / "later", watch=True)
    assert enumerator.advance(enumerator.initial(), 10).position == {"unit": 0}


def test_a_changed_or_vanished_file_is_refused(three):
    enumerator, reader = opened(three)
    end = enumerator.advance(enumerator.initial(), 1000).position
    os.utime(three / "b.parquet", (900, 900))
    with pytest.raises(ExternalFailure, match=r"b\.parquet' changed"):
        read(enumerator, reader, {"unit": 0}, end)
    (three / "a.parquet").unlink()
    with pytest.raises(ExternalFailure, match=r"a\.parquet' vanished"):
        read(enumerator, reader, {"unit": 0}, end)


def test_large_parquet_files_are_cut_by_row_groups(tmp_path):
    table = pa.table({"n": pa.array(range(400_000), pa.int64())})
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=70_000)
    enumerator, reader = opened(tmp_path, schema_of("n long"))
    end = enumerator.advance(enumerator.initial(), 10**9).position
    splits = enumerator.splits({"unit": 0}, end)
    assert [(split.body["part"], split.rows) for split in splits] == [
        ([0, 2], 140_000),
        ([2, 4], 140_000),
        ([4, 6], 120_000),
    ]
    batches = [batch for split in splits for batch in reader.read(split.body)]
    assert max(batch.num_rows for batch in batches) <= 131_072
    assert pa.Table.from_batches(batches).equals(table)


def test_columns_are_chosen_cast_and_filled(tmp_path):
    table = pa.table(
        {
            "extra": ["x"],
            "name": pa.array(["a"]).dictionary_encode(),
            "n": pa.array([7], pa.int16()),
            "t": pa.array([1_001], pa.timestamp("ns")),
        }
    )
    pq.write_table(table, tmp_path / "f.parquet")
    (row,) = everything(*opened(tmp_path, schema_of("t timestamp, n long, name string, absent double")))
    assert (row["n"], row["name"], row["absent"], row["t"].microsecond) == (7, "a", None, 1)


def test_a_file_with_none_of_the_columns_keeps_its_rows(tmp_path):
    write_parquet(tmp_path / "f.parquet", rows(1, 2), 1)
    assert everything(*opened(tmp_path, schema_of("other long"))) == [{"other": None}] * 2


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("name long", ["'name'", "string", "long"]),
        ("n string", ["'n'", "int64", "string"]),
        ("other long not null", ["'other'", "known"]),
    ],
)
def test_columns_that_do_not_fit_are_named(three, schema, words):
    with pytest.raises(InvalidSchema) as caught:
        everything(*opened(three, schema_of(schema)))
    for word in words:
        assert word in str(caught.value)


def test_a_null_where_none_may_be_is_a_bad_record(tmp_path):
    write_parquet(tmp_path / "f.parquet", [{"n": 1}, {"n": None, "name": "x"}, {"n": 3}], 1)
    bad, *good = everything(*opened(tmp_path, schema_of("n long not null, name string")))
    assert [row["n"] for row in good] == [1, 3]
    assert json.loads(bad.raw) == {"n": None, "name": "x"}
    assert "'n' is null" in bad.error


def test_format_is_guessed_only_when_clear(three):
    (three / "d.json").write_text("{}\n")
    with pytest.raises(InvalidStep, match="format"):
        everything(*opened(three))
    (three / "d.json").rename(three / "d.dat")
    with pytest.raises(InvalidStep, match=r"d\.dat"):
        everything(*opened(three, pattern="d*"))
    assert len(everything(*opened(three, pattern="d*", format="json"))) == 1


def test_a_file_that_is_not_of_the_format_is_named(tmp_path):
    (tmp_path / "f.parquet").write_text("not parquet at all")
    with pytest.raises(ExternalFailure, match=r"f\.parquet"):
        everything(*opened(tmp_path))


def test_folders_name_partition_columns(tmp_path):
    folder = tmp_path / "day=2024-05-01" / "kind=a%2Fb"
    folder.mkdir(parents=True)
    write_parquet(folder / "f.parquet", rows(1), 1)
    (row,) = everything(*opened(tmp_path, schema_of("n long, day date, kind string"), recursive=True))
    assert (row["n"], row["day"].isoformat(), row["kind"]) == (1, "2024-05-01", "a/b")


@pytest.mark.parametrize("is_stream", [True, False])
def test_arrow_files_and_streams(tmp_path, is_stream):
    table = pa.Table.from_pylist(rows(*range(200_000)), SCHEMA.arrow)
    opener = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with pa.OSFile(str(tmp_path / "f.arrow"), "wb") as sink, opener(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=150_000)
    assert everything(*opened(tmp_path)) == table.to_pylist()
