"""The forms in which a load function may give rows, and what becomes of those that do not fit."""

import collections
import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from millstream.connectors.loader.rows import UnknownRows, counted, parts_of
from millstream.contract.source import BadRecord
from millstream.errors import InvalidSchema
from millstream.model.schema import schema_of
from millstream.records.codecs import batch_to_rows

SCHEMA = schema_of("id long not null, name string")
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]


@dataclasses.dataclass
class Order:
    id: int
    name: str | None


Pair = collections.namedtuple("Pair", ["id", "name"])
FORMS = {
    "list of dicts": ROWS,
    "generator of dicts": ROWS,
    "dataclasses": [Order(**row) for row in ROWS],
    "named tuples": [Pair(**row) for row in ROWS],
    "columns": {"id": [1, 2, 3], "name": ["a", None, "c"]},
    "arrays": {"id": np.array([1, 2, 3]), "name": pa.array(["a", None, "c"])},
    "table": pa.Table.from_pylist(ROWS),
    "batch": pa.RecordBatch.from_pylist(ROWS),
    "other types": pa.Table.from_pylist(ROWS, schema=pa.schema([("id", pa.int32()), ("name", pa.large_string())])),
    "other order": pa.Table.from_pylist(ROWS).select(["name", "id"]),
    "pandas": pd.DataFrame({"id": [1, 2, 3], "name": ["a", None, "c"]}),
    "polars": pl.DataFrame(ROWS),
}


def read(rows):
    return list(parts_of(rows, SCHEMA, origin="load behind 7"))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows(form):
    def given():
        return iter(FORMS[form]) if "generator" in form else FORMS[form]

    (batch,) = read(given())
    assert batch.schema == SCHEMA.arrow
    assert batch_to_rows(batch) == ROWS
    assert counted(given()) == 3


@pytest.mark.parametrize("nothing", [None, [], {}, {"id": [], "name": []}, pa.table({"id": pa.array([], pa.int64())})])
def test_nothing_is_no_rows(nothing):
    assert sum(part.num_rows for part in read(nothing)) == 0
    assert counted(nothing) == 0


def test_a_row_that_does_not_fit_is_a_bad_record_and_the_others_are_read():
    bad = [{"id": "x"}, {"name": "no id"}, {"id": 9, "surplus": 1}]
    parts = read([ROWS[0], bad[0], ROWS[1], bad[1], bad[2], ROWS[2]])
    good = [row for part in parts if not isinstance(part, BadRecord) for row in batch_to_rows(part)]
    found = [part for part in parts if isinstance(part, BadRecord)]
    assert good == ROWS
    assert [part.origin for part in found] == ["load behind 7"] * 3
    assert ["'id' has a value of another type" in found[0].error, "null or missing" in found[1].error] == [True, True]
    assert "surplus" in found[2].error
    assert found[0].raw == '{"id": "x"}'


def test_a_null_in_a_column_of_a_table_is_a_bad_record():
    bad, good = read(pa.table({"id": [1, None], "name": ["a", "b"]}))
    assert (bad.error, bad.origin) == ("column 'id' is null or missing", "load behind 7")
    assert batch_to_rows(good) == ROWS[:1]


@pytest.mark.parametrize("rows", [7, "text", b"bytes", [1, 2], ["a"], {"id": 1, "name": "a"}, {"id": [1], "name": []}])
def test_other_forms_are_refused(rows):
    with pytest.raises(UnknownRows):
        read(rows)


def test_a_column_of_another_type_is_refused_whole():
    with pytest.raises(InvalidSchema, match="'id'"):
        read(pa.table({"id": ["x"], "name": ["a"]}))
