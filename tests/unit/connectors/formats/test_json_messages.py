"""Messages that are json: in blocks and alone, good and bad, and written so that they are read back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.formats.messages import check_neighbours, opened, outcomes, writing
from tests.unit.connectors.formats.schemas import batches
from tests.unit.connectors.written_values import KINDS, NESTED, text_of, values

from millstream.connectors.formats import json_lines
from millstream.connectors.formats.decode import BadMessage
from millstream.contract.source import BadRecord
from millstream.model.schema import schema_of
from millstream.records.codecs import shown_rows

ORDERS = schema_of("id long not null, at timestamp, amount decimal(10,2), tags array<string>")


def order(number, **more):
    return json.dumps({"id": number, "at": 1714566600000, "amount": "1.50", "tags": ["a"], **more}).encode()


def test_a_good_block_is_one_batch():
    (part,) = opened("json", ORDERS).decode([order(n) for n in range(5000)])
    assert part.taken == range(5000)
    assert part.rows.schema == ORDERS.arrow
    assert part.rows.column("id").to_pylist() == list(range(5000))


def test_no_messages_give_nothing():
    assert list(opened("json", ORDERS).decode([])) == []


def test_bad_messages_are_named_in_their_places():
    block = [order(n) for n in range(2000)]
    block[0] = None
    block[700] = b'{"id": 7'
    block[701] = order(1, amount="much")
    block[1999] = b'{"at": null}'
    first, good, unfinished, much, more, unnamed = opened("json", ORDERS).decode(block)
    assert (good.taken, more.taken) == (range(1, 700), range(702, 1999))
    assert first == BadMessage(0, b"", first.error)
    assert "null value" in first.error
    assert unfinished == BadMessage(700, b'{"id": 7', unfinished.error)
    assert "not json" in unfinished.error
    assert "'amount'" in much.error
    assert "'much'" in much.error
    assert "'id' is null or missing" in unnamed.error


@pytest.mark.parametrize(
    "message",
    [
        b'{"id": 1,\n "tags": [\n"x"\n]\r\n}\n',
        b' \t{"id": 1, "tags": ["x"]} ',
        b'{"id": 1, "tags": ["x"], "more": {"deep": [1, null]}}',
    ],
)
def test_forms_of_one_object(message):
    block = [order(0), message, order(2)]
    (part,) = opened("json", ORDERS).decode(block)
    assert part.rows.column("tags").to_pylist() == [["a"], ["x"], ["a"]]


@pytest.mark.parametrize(
    "pair",
    [
        [b'{"id": 1, "tags": ["x}', b'{y"]}'],
        [b'{"id": 1, "more": ', b'{"a": 1}}'],
        [b'{"id": 1, "more": [{}', b"{}]}"],
        [b'{"id": 1, "more": "', b'"}'],
        [b'{"id": 1', b', "tags": []}'],
        [b"[", b"]"],
        [b'{"id": 1, "more": {"a": "}', b'{", "b": {}}}'],
    ],
)
@pytest.mark.parametrize("two", [b'{"id": 3}{"id": 4}', b'{"id": 3}\n{"id": 4}', b'{"id": 3} null {"id": 4}'])
def test_messages_that_would_make_one_together_are_bad_each(pair, two):
    """With two objects in another message there are as many objects as messages in all."""
    found = check_neighbours(opened("json", ORDERS), [order(0), *pair, two, order(5)])
    assert [index for index, what in found.items() if what != "bad"] == [0, 4]


def test_fields_that_are_no_columns():
    block = [order(0), order(1, more=1), order(2)]
    assert len(list(opened("json", ORDERS).decode(block))) == 1
    _, bad, _ = opened("json", ORDERS, ignore_extra=False).decode(block)
    assert bad.index == 1
    assert "more" in bad.error


@pytest.mark.parametrize("nulls", [1, 99, 150])
def test_times_in_milliseconds_may_be_missing_at_first(nulls):
    block = [order(n, at=None) for n in range(nulls)] + [order(n, at=1714566600000) for n in range(nulls, 1000)]
    rows = [part.rows.column("at").null_count for part in opened("json", ORDERS).decode(block)]
    assert rows == [nulls]


def by_record(value, schema, ignore_extra=True):
    """What a message means to the reader that takes its time."""
    records = [] if value is None else [value]
    read = json_lines.by_record(
        records, schema, lambda text: next(json_lines.by_arrow(text, schema)), ignore_extra=ignore_extra
    )
    return next((repr(shown_rows(part)[0]) for part in read if not isinstance(part, BadRecord)), "bad")


ODD = [
    b'{"s": "a\nb"}',
    b'{"s": "a\x00b"}',
    b'{"s": "\xff"}',
    b'{"more": "\xff", "n": 1}',
    b'{"more": "a\nb", "n": 1}',
    b'{"s": "\\ud83d\\ude00"}',
    b'{"s": "\\ud800"}',
    b'{"more": "\\ud800", "n": 1}',
    b'{"s": "\\x"}',
    b'{"more": "\\x", "n": 1}',
    b'{"n": 1, "n": 2}',
    b'{"n": 1, "n": "x"}',
    b'{"n": "x", "n": 1}',
    b'{"n": 01}',
    b'{"more": 01, "n": 1}',
    b'{"more": 1., "n": 1}',
    b'{"more": .5, "n": 1}',
    b'{"more": -, "n": 1}',
    b'{"more": tru, "n": 1}',
    b'{"more": NaN, "n": 1}',
    b'{"more": 1e999, "n": 1}',
    b'{"n": 1} x',
    b'{"n": 1}\x00',
    b'\xef\xbb\xbf{"n": 1}',
    b'\x0b{"n": 1}',
    b'{"n": 1,}',
    b'{"n" 1}',
    b"{n: 1}",
    b'{"f": -0}',
    b'{"f": -0, "n": 3}',
    b'{"a": [-0]}',
    b'{"a": [-0.0, 5, 9007199254740993]}',
    b'{"f": 9007199254740993}',
    b'{"f": "NaN"}',
    b'{"f": Infinity}',
    b'{"f": true}',
    b'{"g": 16777217}',
    b'{"g": "NaN"}',
    b'{"g": null}',
    b'{"g": "1.5"}',
    b'{"g": 1.00000017881393432617187500001}',
    b'{"d": "1_0"}',
    b'{"d": " 1.5 "}',
    b'{"d": 1.005}',
    b'{"d": 123456789.125}',
    b'{"d": 99999999.99}',
    b'{"d": "NaN"}',
    b'{"d": true}',
    b'{"t": "2024-05-01"}',
    b'{"t": true}',
    b'{"t": 1.5}',
    b'{"t": 9223372036854775807}',
    b'{"t": "0000-01-01T00:00:00Z"}',
    b'{"b": "YQ"}',
    b'{"b": "YQ=="}',
    b'{"b": "Y Q=="}',
    b'{"b": "YQ==\xc3\xa9"}',
    b'{"b": {"__ms_bytes": "YQ=="}}',
    b'{"m": {"1": 2, "01": 3}}',
    b'{"m": {"x": 2}}',
    b'{"z": {"x": 1, "y": 2}}',
    b'{"z": {"x": "1"}}',
    b'{"z": []}',
    b'{"l": [1714566600000, "2024-05-01T12:30:00Z", null]}',
    b'{"n": 1.0}',
    b'{"n": 1e2}',
    b'{"n": 9223372036854775808}',
    b'{"i": 300}',
    b"{}",
    b"[]",
    b"null",
    b'{"more": ' + b"[" * 3000 + b"]" * 3000 + b', "n": 1}',
]
WIDE = schema_of(
    {
        **{
            "n": "long",
            "i": "tinyint",
            "s": "string",
            "f": "double",
            "g": "float",
            "d": "decimal(10,2)",
            "t": "timestamp",
        },
        **{"b": "binary", "a": "array<double>", "m": "map<long,int>", "z": "struct<x:int>", "l": "array<timestamp>"},
    }
)


@pytest.mark.parametrize("ignore_extra", [True, False])
@pytest.mark.parametrize("message", ODD)
def test_odd_messages_mean_what_they_mean_by_record(message, ignore_extra):
    name = message[2:3].decode("latin-1")
    for schema in (WIDE, WIDE.select(["n", name] if name in WIDE and name != "n" else ["n"])):
        found = outcomes(opened("json", schema, ignore_extra=ignore_extra), [message])
        assert found == {0: by_record(message, schema, ignore_extra)}


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_message_means_the_same_next_to_any_other(data):
    columns = data.draw(st.lists(st.sampled_from(KINDS + NESTED), min_size=1, max_size=3))
    schema = schema_of({f"c{place}": kind for place, kind in enumerate(columns)})
    names = [*schema.names, "more"]
    texts = st.fixed_dictionaries({}, optional=dict.fromkeys(names, values)).map(text_of).map(str.encode)
    pieces = st.sampled_from(
        [b'{"c0":', b'{"c0":1}{"c0":2}', b"{}}", b"{", b"}", b'"', b"null", b"", b"\n", b"\xff", None]
    )
    block = data.draw(st.lists(texts | pieces, max_size=5))
    ignore_extra = data.draw(st.booleans())
    found = check_neighbours(opened("json", schema, ignore_extra=ignore_extra), block)
    assert found == {index: by_record(value, schema, ignore_extra) for index, value in enumerate(block)}


@given(batches())
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(made):
    schema, batch = made
    written = writing("json", schema)(batch)
    found = list(opened("json", schema, ignore_extra=False).decode(written.to_pylist()))
    assert len(found) == (batch.num_rows > 0)
    for part in found:
        assert repr(part.rows.to_pylist()) == repr(batch.to_pylist())


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_damaged_message_leaves_the_others_as_they_were(data):
    schema, batch = data.draw(batches(min_rows=2))
    block = writing("json", schema)(batch).to_pylist()
    place = data.draw(st.integers(0, len(block) - 1))
    damaged = bytearray(block[place])
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    messages = opened("json", schema)
    before = outcomes(messages, block)
    after = check_neighbours(messages, [*block[:place], bytes(damaged), *block[place + 1 :]])
    assert {**after, place: None} == {**before, place: None}


@pytest.mark.parametrize("kind", ["long", "int", "array<long>", "struct<n:long>", "map<string,long>"])
def test_a_fraction_is_no_whole_number_beside_a_decimal_either(kind):
    """Where a column is a decimal, numbers are read as decimals, and Arrow would cut their fractions off."""
    forms = {"array<long>": "[%s]", "struct<n:long>": '{"n": %s}', "map<string,long>": '{"k": %s}'}
    messages = [f'{{"n": {forms.get(kind, "%s") % number}, "price": 1.5}}'.encode() for number in ("1.5", "2.0")]
    schema = schema_of(f"n {kind}, price decimal(10,2)")
    bad, good = opened("json", schema).decode(messages)
    assert bad == BadMessage(0, messages[0], bad.error)
    assert "1.5" in bad.error
    assert "2" in str(good.rows.column("n")[0].as_py())


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamp", "12345678901234567890"),
        ("timestamp_ntz", "-12345678901234567890"),
        ("array<timestamp>", "[12345678901234567890]"),
        ("map<boolean,long>", '{"maybe":1}'),
        ("map<decimal(5,2),long>", '{"x":1}'),
        ("map<long,long>", '{"1_0":1}'),
        ("map<long,long>", '{" 1":1}'),
        ("map<int,long>", '{"12345678901234567890":1}'),
        ("map<date,array<map<boolean,long>>>", '{"2024-01-01":[{"true":1,"1":2}]}'),
    ],
)
def test_a_value_that_no_column_holds_makes_one_message_bad_and_ends_nothing(kind, value):
    good = {"id": 1, "a": None}
    block = [json.dumps(good).encode(), f'{{"id": 2, "a": {value}}}'.encode(), json.dumps(good).encode()]
    found = check_neighbours(opened("json", schema_of(f"id long, a {kind}")), block)
    assert found == {0: repr(good), 1: "bad", 2: repr(good)}


def test_what_is_wrong_with_a_decimal_is_said_in_words():
    _, bad = opened("json", ORDERS).decode([order(1), order(2, amount="much")])
    assert bad.error == "column 'amount' has a value of another type; found 'much': not a number; known: decimal(10,2)"
