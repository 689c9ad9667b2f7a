import datetime as dt
import decimal
import gzip
import json

import pytest
from tests.unit.connectors.reading import everything, opened

from millstream.connectors.files import discovery, text
from millstream.contract.source import BadRecord
from millstream.errors import ExternalFailure, InvalidSchema
from millstream.model.schema import schema_of

WIDE = schema_of("n long, t timestamp, l timestamp_ntz, d date, m decimal(20,10), f double, b boolean, s string")
ROW = {
    "n": 1,
    "t": dt.datetime(2024, 5, 1, 12, 30, 0, 5, tzinfo=dt.UTC),
    "l": dt.datetime(2024, 5, 1, 12, 30),
    "d": dt.date(2024, 5, 1),
    "m": decimal.Decimal("1234567890.0123456789"),
    "f": 0.5,
    "b": True,
    "s": 'ünï "quoted", text',
}


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("instant", ["2024-05-01T12:30:00.000005Z", "2024-05-01 14:30:00.000005+02:00"])
def test_json_values_are_typed(tmp_path, instant):
    line = {
        **ROW,
        "t": instant,
        "l": "2024-05-01T12:30:00",
        "d": "2024-05-01",
        "m": "1234567890.0123456789",
        "extra": {},
    }
    write(tmp_path / "f.json", [json.dumps(line), "", "{}"])
    assert everything(*opened(tmp_path, WIDE)) == [ROW, dict.fromkeys(ROW)]


def test_json_decimals_are_exact_as_numbers(tmp_path):
    write(tmp_path / "f.json", ['{"m": 1234567890.0123456789}', "broken"])
    good, _ = everything(*opened(tmp_path, schema_of("m decimal(20,10), f double")))
    assert good["m"] == ROW["m"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1714566600000"], [0]),
        (['"2024-05-01T12:30:00"'], [0]),
        (['"2024-05-01T12:30:00Z"', "1714566600001"], [0, 1]),
        (["1714566600000", "null", '"2024-05-01T12:30:00"'], [0, None, 0]),
        (['"2024-05-01T12:30:00.123456789Z"'], [123.456]),
    ],
)
def test_json_times_are_iso_text_or_milliseconds_even_mixed(tmp_path, values, expected):
    write(tmp_path / "f.json", [f'{{"t": {value}}}' for value in values])
    base = dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC)
    wanted = [None if ms is None else base + dt.timedelta(milliseconds=ms) for ms in expected]
    assert [row["t"] for row in everything(*opened(tmp_path, schema_of("t timestamp")))] == wanted


def test_bad_json_lines_do_not_take_good_ones_along(tmp_path):
    lines = [f'{{"n": {n}}}' for n in range(100)]
    lines[10] = '{"n": '
    lines[20] = '{"n": "twenty"}'
    lines[30] = "[1]"
    write(tmp_path / "f.json", lines)
    found = everything(*opened(tmp_path, schema_of("n long")))
    assert [row["n"] for row in found if isinstance(row, dict)] == [n for n in range(100) if n not in {10, 20, 30}]
    bad = [row for row in found if isinstance(row, BadRecord)]
    assert [record.raw for record in bad] == [lines[10], lines[20], lines[30]]
    assert [found.index(record) for record in bad] == [10, 20, 30]
    for record, word in zip(bad, ["not json", "'twenty'", "not an object"], strict=True):
        assert word in record.error


def test_nested_json(tmp_path):
    schema = schema_of({"a": "array<long>", "s": "struct<x:timestamp>", "m": "map<string,double>", "b": "binary"})
    line = {"a": [1, None], "s": {"x": "2024-05-01T00:00:00Z"}, "m": {"k": 0.5}, "b": "AP8="}
    write(tmp_path / "f.json", [json.dumps(line)])
    (row,) = everything(*opened(tmp_path, schema))
    assert (row["a"], row["m"], row["b"]) == ([1, None], {"k": 0.5}, b"\x00\xff")
    assert row["s"]["x"] == dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


def test_milliseconds_inside_other_values_are_milliseconds_too(tmp_path):
    schema = schema_of({"a": "array<timestamp>", "s": "struct<x:timestamp_ntz>", "m": "map<string,timestamp>"})
    write(tmp_path / "f.json", ['{"a": [1714566600000, null], "s": {"x": 1714566600000}, "m": {"k": 1714566600000}}'])
    (row,) = everything(*opened(tmp_path, schema))
    instant = dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC)
    assert row == {"a": [instant, None], "s": {"x": instant.replace(tzinfo=None)}, "m": {"k": instant}}


def test_fields_outside_the_schema_are_passed_over_also_next_to_a_bad_line(tmp_path):
    schema = schema_of({"n": "long", "s": "struct<x:long>"})
    write(tmp_path / "f.json", ['{"n": 1, "z": 0, "s": {"x": 2, "y": 3}}'] * 2 + ["broken"])
    *good, bad = everything(*opened(tmp_path, schema))
    assert good == [{"n": 1, "s": {"x": 2}}] * 2
    assert bad.raw == "broken"


def test_small_chunks_cut_only_between_records(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "_CHUNK", 64)
    write(tmp_path / "f.json", [json.dumps({"n": n, "s": "x" * (n % 90)}) for n in range(50)])
    (tmp_path / "f.csv").write_text("s,n\n" + "".join(f'"line\none, {n} ""quoted""",{n}\n' for n in range(50)))
    schema = schema_of("n long, s string")
    assert everything(*opened(tmp_path / "f.json", schema)) == [{"n": n, "s": "x" * (n % 90)} for n in range(50)]
    assert everything(*opened(tmp_path / "f.csv", schema)) == [
        {"n": n, "s": f'line\none, {n} "quoted"'} for n in range(50)
    ]


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 40])
def test_byte_ranges_of_json_read_every_line_once(tmp_path, pieces, monkeypatch):
    monkeypatch.setattr(text, "_CHUNK", 50)
    path = tmp_path / "f.json"
    write(path, [json.dumps({"n": n, "name": "x" * (n % 40)}) for n in range(60)])
    enumerator, reader = opened(path)
    enumerator.advance(enumerator.initial(), 1)
    (split,) = enumerator.splits({"unit": 0}, {"unit": 1})
    size = split.body["size"]
    found = []
    for piece in range(pieces):
        part = [size * piece // pieces, size * (piece + 1) // pieces]
        found += [n for batch in reader.read({**split.body, "part": part}) for n in batch.column("n").to_pylist()]
    assert found == list(range(60))


def test_long_json_files_are_cut_into_units(tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "_BYTES_PER_UNIT", 500)
    write(tmp_path / "f.json", [json.dumps({"n": n, "name": "x" * (n % 40)}) for n in range(200)])
    enumerator, reader = opened(tmp_path)
    end = enumerator.advance(enumerator.initial(), 10**6)
    assert end.position["unit"] > 5
    assert sum(split.rows for split in enumerator.splits({"unit": 0}, end.position)) == pytest.approx(200, rel=0.1)
    assert [row["n"] for row in everything(enumerator, reader, credit=40)] == list(range(200))


def test_csv_values_are_typed(tmp_path):
    write(
        tmp_path / "f.csv",
        [
            "s,n,t,l,d,m,f,b,extra",
            '"ünï ""quoted"", text",1,2024-05-01T12:30:00.000005Z,2024-05-01 12:30:00,2024-05-01,'
            "1234567890.0123456789,0.5,true,x",
            ",,,,,,,,",
        ],
    )
    assert everything(*opened(tmp_path, WIDE)) == [ROW, dict.fromkeys(ROW)]


def test_csv_times_in_milliseconds(tmp_path):
    write(tmp_path / "f.csv", ["t", "1714566600000", "2024-05-01T12:30:00Z"])
    found = [row["t"] for row in everything(*opened(tmp_path, schema_of("t timestamp")))]
    assert found == [dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC)] * 2


def test_csv_without_header_and_with_another_delimiter(tmp_path):
    write(tmp_path / "f.csv", ["1;one", "2;two"])
    found = everything(*opened(tmp_path, header=False, delimiter=";"))
    assert found == [{"n": 1, "name": "one"}, {"n": 2, "name": "two"}]


def test_bad_csv_lines_become_bad_records(tmp_path):
    write(tmp_path / "f.csv", ["n,name", "1,one", "x,two", "3", "4,four,more", "5,five"])
    found = everything(*opened(tmp_path))
    assert [row if isinstance(row, dict) else row.raw for row in found] == [
        {"n": 1, "name": "one"},
        "x,two",
        "3",
        "4,four,more",
        {"n": 5, "name": "five"},
    ]
    assert "1 csv columns where 2 were expected" in found[2].error


def test_csv_refuses_nested_and_names_missing_columns(tmp_path):
    write(tmp_path / "f.csv", ["n,name", "1,one"])
    with pytest.raises(InvalidSchema, match="nested"):
        everything(*opened(tmp_path, schema_of("n array<long>")))
    with pytest.raises(InvalidSchema, match=r"'other'.*n, name"):
        everything(*opened(tmp_path, schema_of("other long not null")))


@pytest.mark.parametrize("name", ["f.csv.gz", "f.json.gz"])
def test_packed_text(tmp_path, name):
    content = 'n,name\n1,"one"\n' if "csv" in name else '{"n": 1, "name": "one"}\n'
    (tmp_path / name).write_bytes(gzip.compress(content.encode()))
    assert everything(*opened(tmp_path)) == [{"n": 1, "name": "one"}]


def test_a_header_that_is_no_text_is_named(tmp_path):
    (tmp_path / "f.csv").write_bytes(b"n,n\xe9\n1,2\n")
    with pytest.raises(ExternalFailure, match=r"FILES-006.*f\.csv"):
        everything(*opened(tmp_path))
