"""A record of a text file means the same next to any other, whichever way its chunk is read."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.connectors.files.text import csv_parts, json_parts
from millstream.contract.source import BadRecord
from millstream.model.schema import schema_of
from millstream.records.codecs import shown_rows

KINDS = [
    *("long", "int", "tinyint", "double", "float", "boolean", "string", "binary"),
    *("date", "timestamp", "timestamp_ntz", "decimal(10,2)"),
]
NESTED = ["array<double>", "array<float>", "struct<x:float,y:long>", "map<string,double>", "array<array<string>>"]

whole_numbers = st.integers(-(2**70), 2**70) | st.integers(-200, 200) | st.integers(2**53 - 3, 2**53 + 3)
numbers = st.one_of(
    whole_numbers.map(str),
    st.floats().map(repr),
    st.floats(width=32).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.sampled_from(
        ["-0", "-0.0", "16777217", "1e400", "1e39", "1e-400", "0.1", "1.00000017881393432617187500001", "1" * 320]
    ),
)
times = st.one_of(
    st.datetimes().map(str),
    st.datetimes().map(lambda time: time.isoformat() + "Z"),
    st.dates().map(str),
    st.integers(-(10**12), 10**13).map(str),
    st.sampled_from(
        ["0000-01-01", "0000-05-01T00:00:00Z", "2024-05-01T12:30:00.123456789", "2024-05-01T12+02", "20240501"]
    ),
)
words = st.sampled_from(["", "true", "False", "tRue", "1", "NaN", "inf", "-Infinity", "AP8=", "ünï", "x y", "null"])

cells = st.one_of(
    numbers,
    times,
    words,
    words.map(lambda word: f'"{word}"'),
    st.sampled_from(["0x10", "0XfF", "-0x1", "+5", " 5 ", "\t1.5", " 2024-05-01 ", "1_0", '"a""b,\nc"', 'a"b', '"a"b']),
)
scalars = st.one_of(
    numbers,
    (times | words | numbers).map(lambda text: f'"{text}"'),
    st.sampled_from(
        ["null", "true", "false", "NaN", "Infinity", "-Infinity", "Inf", "-Inf", '"\\ud800"', '"\\u00e9"', "01"]
    ),
)
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=3).map(lambda each: f"[{','.join(each)}]"),
    st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), scalars), max_size=3, unique_by=lambda pair: pair[0]).map(
        lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}"
    ),
    st.sampled_from(["[" * 3000 + "]" * 3000, "[[null], null]", '[["a"]]']),
)


def csv_records(records, schema):
    data = "".join(record + "\n" for record in records).encode()
    return read(csv_parts(pa.BufferReader(data), schema, header=False, delimiter=","))


def json_records(records, schema):
    data = "".join(record + "\n" for record in records).encode()
    return read(json_parts(pa.BufferReader(data), schema))


def read(parts):
    """Rows as text, in which NaN and negative zero can be compared, and the text of bad records."""
    found = []
    for part in parts:
        found += [("bad", part.raw)] if isinstance(part, BadRecord) else map(repr, shown_rows(part))
    return found


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_csv_record_means_the_same_next_to_a_bad_one(data):
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    schema = schema_of({f"c{place}": kind for place, kind in enumerate(kinds)})
    records = data.draw(st.lists(st.tuples(*(cells for _ in kinds)).map(",".join), max_size=4))
    place = data.draw(st.integers(0, len(records)))
    alone = [row for record in records for row in csv_records([record], schema)]
    bad = ",".join("x" for _ in range(len(kinds) + 1))
    assert csv_records(records, schema) == alone
    assert csv_records([*records[:place], bad, *records[place:]], schema) == [
        *alone[:place],
        ("bad", bad),
        *alone[place:],
    ]


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_json_record_means_the_same_next_to_a_bad_one(data):
    kinds = data.draw(st.lists(st.sampled_from(KINDS + NESTED), min_size=1, max_size=3))
    schema = schema_of({f"c{place}": kind for place, kind in enumerate(kinds)})
    names = [*(f"c{place}" for place in range(len(kinds))), "more"]
    records = data.draw(
        st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(names, values)).map(text_of), max_size=4)
    )
    place = data.draw(st.integers(0, len(records)))
    bad = data.draw(st.sampled_from(["{oops", "null", "[1]", '{"c0":1}{"c0":2}', '{"c0":1} null']))
    alone = [row for record in records for row in json_records([record], schema)]
    assert json_records(records, schema) == alone
    assert json_records([*records[:place], bad, *records[place:]], schema) == [
        *alone[:place],
        ("bad", bad),
        *alone[place:],
    ]


def text_of(fields):
    return "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("string", '""', "''"),
        ("string", "", "None"),
        ("binary", '""', "b''"),
        ("binary", "", "None"),
        ("long", '""', "None"),
        ("long", "0x10", "16"),
        ("float", "16777217", "16777216.0"),
        ("decimal(10,2)", "99999999.90", "Decimal('99999999.90')"),
    ],
)
@pytest.mark.parametrize("neighbour", [[], ["1,2,3"]])
def test_csv_cells(kind, cell, value, neighbour):
    (row, *_) = csv_records([f"{cell},1", *neighbour], schema_of(f"a {kind}, b long"))
    assert row == f"{{'a': {value}, 'b': 1}}"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("double", "9007199254740993", "9007199254740992.0"),
        ("double", "-0", "-0.0"),
        ("float", "-0", "-0.0"),
        ("float", "16777217", "16777216.0"),
        ("array<double>", "[-0, 9007199254740993]", "[-0.0, 9007199254740992.0]"),
        ("long", "-0", "0"),
        ("long", "9007199254740993", "9007199254740993"),
    ],
)
@pytest.mark.parametrize("neighbour", [[], ["{oops"]])
def test_json_numbers(kind, text, value, neighbour):
    (row, *_) = json_records([f'{{"a": {text}}}', *neighbour], schema_of({"a": kind}))
    assert row == f"{{'a': {value}}}"


@pytest.mark.parametrize("neighbour", [[], ["1,2,3"]])
def test_more_digits_than_a_decimal_has_are_a_bad_record(neighbour):
    (row, *_) = csv_records(["100000000,1", *neighbour], schema_of("a decimal(10,2), b long"))
    assert row == ("bad", "100000000,1")


@pytest.mark.parametrize("line", ["null", '{"a": 1} null', '{"a": 1}{"a": 2}', "5"])
def test_a_line_of_other_than_one_object_is_a_bad_record(line):
    assert json_records(['{"a": 0}', line], schema_of("a long")) == ["{'a': 0}", ("bad", line)]
    assert json_records([line, '{"a": 0}'], schema_of("a long")) == [("bad", line), "{'a': 0}"]


def test_bytes_that_are_no_text_are_bad_records():
    schema = schema_of("a string, b long")
    found = read(csv_parts(pa.BufferReader(b"a,b\n\xe9,1\n\xe9\ny,2\n"), schema, header=True, delimiter=","))
    assert found == [("bad", "\ufffd,1"), ("bad", "\ufffd"), "{'a': 'y', 'b': 2}"]
    found = read(json_parts(pa.BufferReader(b'{"a": "\xe9"}\n{"a": "y", "b": 2}\n'), schema))
    assert found == [("bad", '{"a": "\ufffd"}'), "{'a': 'y', 'b': 2}"]


def test_deeply_nested_json_is_a_bad_record():
    deep = '{"a": ' + "[" * 5000 + "]" * 5000 + "}"
    assert json_records([deep, '{"a": "x"}'], schema_of("a string")) == [("bad", deep), "{'a': 'x'}"]
