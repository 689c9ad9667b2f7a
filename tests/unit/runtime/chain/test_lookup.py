"""Lookups: tables of files in every format, snapshots by the epoch's clock, and tables that cannot be read."""

import os

import pyarrow as pa
import pyarrow.parquet
import pytest

import millstream as ms
from millstream.errors import InvalidStep, StepFailed
from millstream.testing import ADVANCE_CLOCK, run_job

ROWS = [{"n": 1, "k": 10}, {"n": 2, "k": 20}, {"n": 3, "k": 30}]
SCHEMA = "key long, name string"


def looked_up(table, rows=ROWS, **options):
    job = ms.Job("lookup")
    made = job.source("in", ms.memory([]), schema="n long, k long").lookup(table, on={"k": "key"}, **options)
    made.sink("out", ms.collect("x"))
    return [(row["n"], row["name"]) for row in run_job(job, {"in": rows})["out"]]


def test_a_table_of_every_kind(tmp_path):
    table = pa.table({"name": ["ten", "thirty"], "key": [10, 30], "more": [1, 2]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("key,name\n10,ten\n30,thirty\n")
    (tmp_path / "t.jsonl").write_text('{"key": 10, "name": "ten", "x": 1}\n{"key": 30, "name": "thirty"}\n')
    wanted = [(1, "ten"), (3, "thirty")]
    assert looked_up(table) == wanted
    assert looked_up(table.to_pylist()) == wanted
    assert looked_up(tmp_path / "t.parquet") == wanted
    assert looked_up(str(tmp_path / "t.csv"), schema=SCHEMA) == wanted
    assert looked_up(tmp_path / "t.jsonl", schema=SCHEMA) == wanted


@pytest.mark.parametrize(
    "table", [[], (), pa.table({"key": pa.array([], pa.int64()), "name": pa.array([], pa.string())})]
)
def test_a_table_without_rows_has_the_columns_of_its_schema(table):
    assert looked_up(table, schema=SCHEMA) == []
    assert looked_up(table, schema=SCHEMA, how="left") == [(1, None), (2, None), (3, None)]


def test_a_folder_is_one_table(tmp_path):
    for number, name in ((10, "ten"), (20, "twenty")):
        pa.parquet.write_table(pa.table({"key": [number], "name": [name]}), tmp_path / f"{name}.parquet")
    assert looked_up(tmp_path, how="left") == [(1, "ten"), (2, "twenty"), (3, None)]


def test_an_epoch_uses_the_newest_snapshot_of_its_last_full_interval(tmp_path):
    for name, at in (("a", 5), ("b", 15), ("c", 25)):
        file = tmp_path / f"{name}.csv"
        file.write_text(f"key,name\n10,{name}\n")
        os.utime(file, (at, at))
    tick = dict(ADVANCE_CLOCK("10s"))
    row = {"n": 1, "k": 10}
    found = looked_up(tmp_path, [row, tick, row, tick, row, tick, row], schema=SCHEMA, refresh="10s")
    assert [name for _, name in found] == ["a", "a", "b", "c"]


def test_a_table_that_cannot_be_read_names_step_and_file(tmp_path):
    (tmp_path / "t.csv").write_text("key,name\nten,ten\n")
    with pytest.raises(StepFailed) as caught:
        looked_up(tmp_path / "t.csv", schema=SCHEMA, id="names")
    assert caught.value.code == "RUN-007"
    assert caught.value.step == "names"
    assert "t.csv" in caught.value.message


def test_refusals(tmp_path):
    for options, code in (
        ({"table": [{"key": "ten", "name": "x"}]}, "STEP-047"),
        ({"table": [{"id": 10}]}, "STEP-042"),
        ({"table": 5}, "STEP-083"),
        ({"table": [{"key": 1, "name": "x"}], "refresh": "1m"}, "STEP-083"),
        ({"table": [{"key": 1, "n": 2}]}, "STEP-081"),
        ({"table": tmp_path / "t.csv"}, "STEP-061"),
        ({"table": tmp_path / "t.txt"}, "STEP-070"),
        ({"table": [{"key": 1}], "how": "full"}, "STEP-082"),
    ):
        with pytest.raises(InvalidStep) as caught:
            looked_up(**options)
        assert caught.value.code == code, options


def test_the_schema_of_a_missing_parquet_file_cannot_be_known(tmp_path):
    with pytest.raises(InvalidStep) as caught:
        looked_up(tmp_path / "missing.parquet")
    assert caught.value.code == "STEP-061"
