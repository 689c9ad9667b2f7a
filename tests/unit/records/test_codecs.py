import datetime as dt
import decimal

import pyarrow as pa
import pytest

from millstream.errors import InvalidSchema
from millstream.model.schema import schema_of
from millstream.records.codecs import (
    batch_to_ipc,
    batch_to_rows,
    batch_to_text,
    rows_to_batch,
    table_from_ipc,
    table_from_text,
)

SCHEMA = schema_of(
    {"n": "long", "f": "double", "s": "string", "b": "boolean", "x": "binary", "d": "date", "m": "decimal(10,2)"}
    | {"t": "timestamp", "l": "timestamp_ntz", "a": "array<string>", "k": "map<string,date>", "o": "struct<x:long>"}
)
FULL = {
    "n": 2**62,
    "f": 0.5,
    "s": "ü",
    "b": True,
    "x": b"\x00",
    "d": dt.date(1969, 12, 31),
    "m": decimal.Decimal("-1.50"),
    "t": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
    "l": dt.datetime(2024, 5, 1, 12),
    "a": ["p", None],
    "k": {"one": dt.date(2024, 5, 1), "two": None},
    "o": {"x": 1},
}
EMPTY = dict.fromkeys(FULL)


@pytest.mark.parametrize("rows", [[], [FULL], [EMPTY], [EMPTY, FULL, EMPTY, FULL]])
def test_rows_come_back_from_batches(rows):
    batch = rows_to_batch(rows, SCHEMA)
    assert batch.schema == SCHEMA.arrow
    assert batch_to_rows(batch) == rows
    assert batch_to_rows(table_from_ipc(batch_to_ipc(batch))) == rows
    assert table_from_text(batch_to_text(batch)).to_batches() == pa.Table.from_batches([batch]).to_batches()


def test_slices_and_chunks_give_their_own_rows():
    rows = [FULL, EMPTY, {**FULL, "n": 3, "k": {}}, {**FULL, "k": {"z": None}}, EMPTY]
    batch = rows_to_batch(rows, SCHEMA)
    assert batch_to_rows(batch.slice(1, 3)) == rows[1:4]
    assert batch_to_rows(pa.Table.from_batches([batch.slice(2, 3), batch.slice(0, 2)])) == rows[2:] + rows[:2]


def test_times_are_utc_whatever_their_zone():
    schema = schema_of("t timestamp, l timestamp_ntz")
    east = dt.datetime(2024, 5, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    naive = dt.datetime(2024, 5, 1, 12)
    found = batch_to_rows(
        rows_to_batch([{"t": east, "l": east}, {"t": naive, "l": naive}, {"t": 1714564800000}], schema)
    )
    assert [row["t"] for row in found] == [dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)] * 3
    assert [row["l"] for row in found] == [naive, naive, None]


def test_missing_fields_are_null():
    schema = schema_of("n long, s string")
    assert batch_to_rows(rows_to_batch([{"n": 1}, {"s": "a"}, {}], schema)) == [
        {"n": 1, "s": None},
        {"n": None, "s": "a"},
        {"n": None, "s": None},
    ]


def test_rows_without_columns_keep_their_number():
    batch = rows_to_batch([{}, {}], schema_of(pa.schema([])))
    assert batch.num_rows == 2
    assert batch_to_rows(batch) == [{}, {}]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"n": "1"}, ["'n'", "row 1", "'1' (str)", "long"]),
        ({"n": 1.5}, ["'n'", "1.5 (float)"]),
        ({"n": True}, ["'n'", "True (bool)"]),
        ({"n": 2**63}, ["'n'", str(2**63)]),
        ({"s": 5}, ["'s'", "5 (int)", "string"]),
        ({"t": "2024-05-01"}, ["'t'", "'2024-05-01' (str)", "timestamp"]),
        ({"t": True}, ["'t'", "True (bool)"]),
        ({"m": decimal.Decimal("1.555")}, ["'m'", "1.555", "decimal(10,2)"]),
        ({"zz": 1}, ["row 1", "zz", "known"]),
    ],
)
def test_what_does_not_fit_is_named(row, words):
    with pytest.raises(InvalidSchema) as caught:
        rows_to_batch([FULL, row], SCHEMA)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("row", [{}, {"n": None}])
def test_null_is_refused_where_none_may_be(row):
    with pytest.raises(InvalidSchema, match=r"'n' of row 1.*long not null"):
        rows_to_batch([{"n": 1}, row], schema_of("n long not null"))
