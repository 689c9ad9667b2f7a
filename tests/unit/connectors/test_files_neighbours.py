"""A record of a text file means the same next to any other, whichever way its chunk is read."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.written_values import KINDS, NESTED, cells, text_of, values

from millstream.connectors.files.text import csv_parts, json_parts
from millstream.contract.source import BadRecord
from millstream.model.schema import schema_of
from millstream.records.codecs import shown_rows


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


@pytest.mark.parametrize("pair", [['{"a":', '{"b": 1}}'], ['{"a": 1', '{"b": 1}'], ['{"a": "}', '{"}']])
def test_lines_that_would_make_one_record_together_are_bad_each(pair):
    """With two records in another line there are as many records as lines in all."""
    lines = ['{"a": 0}', *pair, '{"a": 3}{"a": 4}', '{"a": 5}']
    found = json_records(lines, schema_of("a long"))
    assert found == [
        "{'a': 0}",
        *(row for line in lines[1:4] for row in json_records([line], schema_of("a long"))),
        "{'a': 5}",
    ]
    assert found[3] == ("bad", lines[3])


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "\n\n", "\n \r\n"])
def test_forms_of_lines(end):
    data = end.join(['{"a": 0}', '{"a": 1}', '{"a": 2}']).encode()
    for chunk in (data, data + end.encode()):
        assert read(json_parts(pa.BufferReader(chunk), schema_of("a long"))) == ["{'a': 0}", "{'a': 1}", "{'a': 2}"]


def test_bytes_that_are_no_text_are_bad_records():
    schema = schema_of("a string, b long")
    found = read(csv_parts(pa.BufferReader(b"a,b\n\xe9,1\n\xe9\ny,2\n"), schema, header=True, delimiter=","))
    assert found == [("bad", "\ufffd,1"), ("bad", "\ufffd"), "{'a': 'y', 'b': 2}"]
    found = read(json_parts(pa.BufferReader(b'{"a": "\xe9"}\n{"a": "y", "b": 2}\n'), schema))
    assert found == [("bad", '{"a": "\ufffd"}'), "{'a': 'y', 'b': 2}"]


def test_deeply_nested_json_is_a_bad_record():
    deep = '{"a": ' + "[" * 5000 + "]" * 5000 + "}"
    assert json_records([deep, '{"a": "x"}'], schema_of("a string")) == [("bad", deep), "{'a': 'x'}"]
