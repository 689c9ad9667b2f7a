import datetime as dt
import decimal
import json
import math
import zlib

import pyarrow.parquet as pq
import pytest
from tests.unit.connectors.reading import SCHEMA, everything, opened, read

from millstream.connectors.files.lists import tag_of
from millstream.connectors.files.reader import published_files, read_files
from millstream.connectors.files.sink import FilesCommitter, FilesWriter
from millstream.connectors.files.spec import DECLARATION, files
from millstream.contract.sink import SinkContext, SinkTask
from millstream.errors import CheckpointRefused, ExternalFailure, InvalidSchema, InvalidStep
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of
from millstream.records.codecs import batch_to_rows, rows_to_batch


def rows(*numbers):
    return [{"n": n, "name": f"name {n}"} for n in numbers]


class Sink:
    """A sink as a run opens it: the committer once, a writer for each task."""

    def __init__(self, path, schema=SCHEMA, *, job="j", lineage="L", step="out", **options):
        spec = files(path, **options)
        self.options = checked_options(DECLARATION.sink.options, spec.options, step=step, name="files")
        self.schema, self.whose = schema, {"job": job, "lineage": lineage, "step": step}
        self.committer = FilesCommitter(self.options, SinkContext(**self.whose, schema=schema))

    def writer(self, epoch=1, task="0-0", attempt="a1"):
        return FilesWriter(self.options, self.schema, SinkTask(**self.whose, epoch=epoch, task=task, attempt=attempt))

    def staged(self, content, epoch=1, task="0-0", attempt="a1", cut=3):
        writer = self.writer(epoch, task, attempt)
        for start in range(0, len(content), cut):
            writer.write(rows_to_batch(content[start : start + cut], self.schema))
        return json.loads(json.dumps(writer.finish()))

    def published(self, content, epoch=1):
        transaction = self.committer.prepare(epoch, [self.staged(content, epoch)])
        self.committer.publish(epoch, json.loads(json.dumps(transaction)))
        return transaction


def data_files(path):
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("part-*"))


def read_back(path, **choice):
    return batch_to_rows(read_files(path, **choice))


def test_rows_are_visible_only_after_publish(tmp_path):
    sink = Sink(tmp_path)
    messages = [sink.staged(rows(2), task="0-10"), sink.staged(rows(1), task="0-2")]
    transaction = sink.committer.prepare(1, messages)
    assert transaction["rows"] == 2
    assert read_back(tmp_path) == []
    sink.committer.publish(1, transaction)
    assert read_back(tmp_path) == rows(1, 2)


def test_a_task_without_rows_leaves_nothing(tmp_path):
    sink = Sink(tmp_path)
    assert sink.staged([]) is None
    sink.committer.publish(1, sink.committer.prepare(1, []))
    assert data_files(tmp_path) == []
    assert read_files(tmp_path).num_columns == 0


def test_publishing_again_changes_nothing_and_other_files_are_refused(tmp_path):
    sink = Sink(tmp_path)
    transaction = sink.published(rows(1))
    sink.committer.publish(1, transaction)
    assert read_back(tmp_path) == rows(1)
    other = sink.committer.prepare(1, [sink.staged(rows(2), attempt="a2")])
    with pytest.raises(CheckpointRefused, match="epoch 1"):
        sink.committer.publish(1, other)
    assert read_back(tmp_path) == rows(1)


def test_an_epoch_whose_file_is_gone_is_not_published(tmp_path):
    sink = Sink(tmp_path)
    transaction = sink.committer.prepare(1, [sink.staged(rows(1))])
    (tmp_path / transaction["files"][0]["path"]).unlink()
    with pytest.raises(ExternalFailure, match="part-00000001"):
        sink.committer.publish(1, transaction)
    assert published_files(tmp_path) == []


def test_lists_tell_whose_files_they_are(tmp_path):
    Sink(tmp_path, step="a").published(rows(1))
    Sink(tmp_path, step="b", lineage="M").published(rows(2), epoch=7)
    assert [(f.step, f.lineage, f.epoch, f.rows) for f in published_files(tmp_path)] == [
        ("a", "L", 1, 1),
        ("b", "M", 7, 1),
    ]
    assert read_back(tmp_path) == rows(1, 2)
    assert read_back(tmp_path, step="b") == rows(2)
    assert read_back(tmp_path, lineage="L") == rows(1)


def test_a_damaged_list_is_refused(tmp_path):
    Sink(tmp_path).published(rows(1))
    (path,) = tmp_path.rglob("0000000001.json")
    data = json.loads(path.read_text())
    data["files"][0]["rows"] = 5
    path.write_text(json.dumps(data))
    with pytest.raises(CheckpointRefused, match="digest"):
        published_files(tmp_path)


def test_a_missing_published_file_is_named(tmp_path):
    (file,) = Sink(tmp_path).published(rows(1))["files"]
    (tmp_path / file["path"]).unlink()
    with pytest.raises(ExternalFailure, match=file["path"]):
        read_files(tmp_path)


def test_a_file_where_the_directory_should_be_is_refused(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(InvalidStep, match="is a file"):
        Sink(tmp_path / "out")


def test_reading_where_no_sink_wrote_is_refused(tmp_path):
    with pytest.raises(ExternalFailure, match="no sink"):
        read_files(tmp_path)


def test_abort_and_discard_delete_files(tmp_path):
    sink = Sink(tmp_path)
    writer = sink.writer(attempt="a0")
    writer.write(rows_to_batch(rows(1), SCHEMA))
    writer.abort()
    message = sink.staged(rows(1))
    assert len(data_files(tmp_path)) == 1
    sink.committer.discard([message])
    sink.committer.discard([message])
    assert data_files(tmp_path) == []


def test_recover_sweeps_only_its_own_unpublished_files(tmp_path):
    sink, other = Sink(tmp_path), Sink(tmp_path, job="other")
    sink.published(rows(1), epoch=1)
    sink.published(rows(2), epoch=2)
    failed = sink.writer(epoch=2, attempt="failed")
    failed.write(rows_to_batch(rows(2), SCHEMA))
    failed.finish()
    sink.staged(rows(3), epoch=3)
    unfinished = sink.writer(epoch=4)
    unfinished.write(rows_to_batch(rows(4), SCHEMA))
    other.staged(rows(5), epoch=3)
    (
        tmp_path / "_millstream" / f"out-L-{tag_of(job='j', lineage='L', step='out')}" / ".0000000003.json-left"
    ).write_text("torn")
    before = set(data_files(tmp_path))
    Sink(tmp_path).committer.recover(2)
    gone = before - set(data_files(tmp_path))
    assert sorted(name[:13] for name in gone) == ["part-00000002", "part-00000003", "part-00000004"]
    assert len(before) - len(gone) == 3
    assert not list(tmp_path.rglob(".*left"))
    unfinished.abort()


def test_recover_keeps_published_files_even_without_a_durable_epoch(tmp_path):
    sink = Sink(tmp_path)
    sink.published(rows(1))
    sink.staged(rows(2), epoch=2)
    sink.committer.recover(None)
    assert read_back(tmp_path) == rows(1)
    assert len(data_files(tmp_path)) == 1


def test_checksums_stand_in_the_lists(tmp_path):
    Sink(tmp_path, max_rows_per_file=4).published(rows(*range(10)))
    found = published_files(tmp_path)
    assert len(found) == 3
    for file in found:
        content = (tmp_path / file.path).read_bytes()
        assert (file.bytes, file.crc32) == (len(content), zlib.crc32(content))


def test_a_list_that_is_no_list_is_refused(tmp_path):
    Sink(tmp_path).published(rows(1))
    (path,) = tmp_path.rglob("0000000001.json")
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CheckpointRefused, match="cannot be read"):
        published_files(tmp_path)


def test_files_roll_at_the_limit_of_rows(tmp_path):
    sink = Sink(tmp_path, max_rows_per_file=4)
    transaction = sink.published(rows(*range(10)))
    assert [file["rows"] for file in transaction["files"]] == [4, 4, 2]
    assert read_back(tmp_path) == rows(*range(10))


def test_files_roll_at_the_limit_of_bytes(tmp_path):
    sink = Sink(tmp_path, format="json", max_bytes_per_file=500)
    transaction = sink.published(rows(*range(100)))
    assert len(transaction["files"]) >= 3
    assert all(500 <= file["bytes"] < 1000 for file in transaction["files"][:-1])
    assert read_back(tmp_path) == rows(*range(100))


def test_small_batches_share_a_row_group(tmp_path):
    (file,) = Sink(tmp_path).published(rows(*range(30)))["files"]
    assert pq.read_metadata(tmp_path / file["path"]).num_row_groups == 1


ODD = ["plain", "a/b=c", "100%", "ü ☃", "", None, "__HIVE_DEFAULT_PARTITION__", "..", 'q"\n\\', " x "]


def test_partition_folders_hold_odd_values(tmp_path):
    schema = schema_of("n long, kind string, day date")
    content = [{"n": n, "kind": ODD[n % 10], "day": dt.date(2024, 5, 1 + n % 2)} for n in range(40)]
    sink = Sink(tmp_path, schema, partition_by=["day", "kind"])
    transaction = sink.published(content)
    assert {file["path"].split("/")[0] for file in transaction["files"]} == {"day=2024-05-01", "day=2024-05-02"}
    assert any("kind=__HIVE_DEFAULT_PARTITION__/" in file["path"] for file in transaction["files"])
    assert any("kind=a%2Fb%3Dc/" in file["path"] for file in transaction["files"])
    assert all("kind" not in pq.read_schema(tmp_path / file["path"]).names for file in transaction["files"])
    assert sorted(read_back(tmp_path), key=lambda row: row["n"]) == content


def test_typed_partition_values_come_back(tmp_path):
    schema = schema_of("n long, i int, f double, b boolean, t timestamp, m decimal(6,2)")
    content = [
        {
            "n": n,
            "i": None if n == 0 else -n,
            "f": n / 3,
            "b": n % 2 == 0,
            "t": dt.datetime(2024, 5, 1, n, tzinfo=dt.UTC),
            "m": decimal.Decimal(f"{n}.50"),
        }
        for n in range(4)
    ]
    Sink(tmp_path, schema, partition_by=["i", "f", "b", "t", "m"]).published(content)
    assert sorted(read_back(tmp_path), key=lambda row: row["n"]) == content


def test_many_partitions_keep_few_files_open(tmp_path):
    content = [{"n": n % 100, "name": str(n)} for n in range(300)]
    sink = Sink(tmp_path, partition_by="n")
    sink.published(content)
    assert sorted(read_back(tmp_path), key=lambda row: int(row["name"])) == content


ALL = schema_of(
    {"n": "long", "t": "timestamp", "l": "timestamp_ntz", "d": "date", "m": "decimal(10,2)", "f": "double"}
    | {"b": "boolean", "x": "binary", "s": "string"}
)
VALUES = [
    {
        "n": 1,
        "t": dt.datetime(2024, 5, 1, 12, 0, 0, 1, tzinfo=dt.UTC),
        "l": dt.datetime(2024, 5, 1, 12),
        "d": dt.date(1969, 1, 1),
        "m": decimal.Decimal("-1.50"),
        "f": math.inf,
        "b": False,
        "x": b"\x00,\n\xff",
        "s": 'a "b",\nc',
    },
    dict.fromkeys(ALL.names),
]


@pytest.mark.parametrize(
    ("kind", "compression"),
    [
        ("parquet", None),
        ("parquet", "zstd"),
        ("json", None),
        ("json", "gzip"),
        ("csv", None),
        ("csv", "zstd"),
        ("arrow", "lz4"),
    ],
)
def test_every_format_gives_back_what_was_written(tmp_path, kind, compression):
    Sink(tmp_path, ALL, format=kind, compression=compression).published(VALUES)
    assert read_back(tmp_path) == VALUES


@pytest.mark.parametrize(
    ("kind", "values"),
    [("long", [1, None, 2, None]), ("string", [None, "", "x", None]), ("binary", [b"", None]), ("date", [None])],
)
@pytest.mark.parametrize("header", [True, False])
def test_a_csv_of_one_column_keeps_its_nulls(tmp_path, kind, values, header):
    content = [{"a": value} for value in values]
    Sink(tmp_path, schema_of(f"a {kind}"), format="csv", header=header).published(content)
    assert read_back(tmp_path) == content


@pytest.mark.parametrize("kind", ["parquet", "json", "arrow"])
def test_nested_columns(tmp_path, kind):
    schema = schema_of({"a": "array<long>", "m": "map<string,double>", "s": "struct<x:date>"})
    content = [{"a": [1, None], "m": {"k": 0.5}, "s": {"x": dt.date(2024, 5, 1)}}, dict.fromkeys("ams")]
    Sink(tmp_path, schema, format=kind).published(content)
    assert read_back(tmp_path) == content


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("double", math.nan),
        ("float", -math.inf),
        ("array<double>", [math.nan, 1.5, None, math.inf]),
        ("array<float>", [math.nan]),
        ("struct<x:double,y:array<double>>", {"x": -math.inf, "y": [math.nan]}),
        ("map<string,double>", {"k": math.nan, "l": 0.5}),
        ("map<double,long>", {math.inf: 1, -math.inf: 2, 0.5: 3}),
        ("array<struct<m:map<string,float>>>", [{"m": {"k": math.nan}}, None]),
    ],
)
def test_numbers_that_json_lacks_come_back_at_any_depth(tmp_path, kind, value):
    Sink(tmp_path, schema_of({"a": kind}), format="json").published([{"a": value}, {"a": None}])
    assert repr(read_back(tmp_path)) == repr([{"a": value}, {"a": None}])


@pytest.mark.parametrize(
    ("schema", "options", "error"),
    [
        ("n long", {"format": "json", "compression": "snappy"}, InvalidStep),
        ("n long, m long", {"partition_by": "other"}, InvalidStep),
        ("n long, m binary", {"partition_by": ["m"]}, InvalidStep),
        ("n long", {"partition_by": ["n"]}, InvalidStep),
        ("n array<long>", {"format": "csv"}, InvalidSchema),
        ("n long", {"path": "s3://bucket/x"}, InvalidStep),
        ("n long", {"max_rows_per_file": 0}, InvalidStep),
    ],
)
def test_options_that_cannot_work_are_refused_on_opening(tmp_path, schema, options, error):
    with pytest.raises(error):
        Sink(options.pop("path", tmp_path), schema_of(schema), **options)


def test_a_source_follows_the_lists_of_a_sink(tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    sink = Sink(out, partition_by="name")
    source, reader = opened(out, log_dir=log, watch=True)
    assert source.advance(source.initial(), 100).position == {"unit": 0}
    staged = sink.committer.prepare(1, [sink.staged(rows(1))])
    assert source.advance(source.initial(), 100).position == {"unit": 0}
    sink.committer.publish(1, staged)
    first = source.advance(source.initial(), 100).position
    assert read(source, reader, {"unit": 0}, first) == rows(1)
    sink.published(rows(2), epoch=2)
    sink.staged(rows(3), epoch=3)
    reopened, reader = opened(out, log_dir=log, watch=True)
    second = reopened.advance(first, 100).position
    assert read(reopened, reader, first, second) == rows(2)
    assert everything(*opened(out)) == rows(1, 2)
