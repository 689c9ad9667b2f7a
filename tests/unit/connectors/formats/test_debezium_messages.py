"""Changes of tables as Debezium writes them: what becomes a row, what nothing, and what a bad message."""

import base64
import datetime as dt
import decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.formats.debezium_messages import change, mysql_source, with_schema, written
from tests.unit.connectors.formats.messages import check_neighbours, opened, outcomes, writing
from tests.unit.connectors.formats.schemas import batches
from tests.unit.connectors.written_values import text_of, values

from millstream.connectors.formats.decode import BadMessage
from millstream.errors import InvalidSchema
from millstream.model.schema import Schema, schema_of
from millstream.records.codecs import batch_to_rows, rows_to_batch

ORDERS = schema_of("id long not null, name string, amount decimal(10,2), at timestamp, day date, paid boolean")
ROW = {
    "id": 7,
    "name": "shoe",
    "amount": "AfQ=",
    "at": 1714566600000005,
    "day": 19844,
    "paid": True,
    "more": {"x": [1]},
}
READ = {
    "id": 7,
    "name": "shoe",
    "amount": decimal.Decimal("5.00"),
    "at": dt.datetime(2024, 5, 1, 12, 30, 0, 5, tzinfo=dt.UTC),
    "day": dt.date(2024, 5, 1),
    "paid": True,
}
ENVELOPE = schema_of(
    "id long, name string, kind string not null, old struct<id:long,amount:decimal(10,2)>, at timestamp, place long"
)
ASKED = {"kind": "op", "old": "before", "at": "ts", "place": "lsn"}
UNCHANGED = "__debezium_unavailable_value"


def rows(messages, block):
    found = list(messages.decode(block))
    assert not [part for part in found if isinstance(part, BadMessage)]
    return [row for part in found for row in batch_to_rows(part.rows)]


def error(messages, value):
    (bad,) = messages.decode([value])
    return bad.error


@pytest.mark.parametrize("form", [lambda each: each, with_schema])
def test_rows_are_of_after_and_of_before_when_they_are_gone(form):
    block = [
        change("r", after={**ROW, "id": 1}),
        change("c", after={**ROW, "id": 2}),
        change("u", before={**ROW, "id": 0}, after={**ROW, "id": 3}),
        change("d", before={**ROW, "id": 4}),
    ]
    found = rows(opened("debezium", ORDERS, times="us"), [written(form(each)) for each in block])
    assert found == [{**READ, "id": number} for number in (1, 2, 3, 4)]


def test_a_good_block_is_one_batch():
    (part,) = opened("debezium", ORDERS, times="us").decode(
        [written(change("c", after={**ROW, "id": n})) for n in range(3000)]
    )
    assert part.taken == range(3000)
    assert part.rows.schema == ORDERS.arrow


def test_what_the_envelope_says_of_a_postgres_table():
    old = {"id": 7, "name": None, "amount": "AMg="}
    block = [
        change("u", before=old, after=ROW),
        change("d", before=old),
        change("c", after=ROW),
        change("r", after=ROW),
    ]
    found = rows(opened("debezium", ENVELOPE, envelope=ASKED), list(map(written, block)))
    assert [row["kind"] for row in found] == ["update", "delete", "insert", "read"]
    assert [row["old"] for row in found] == [{"id": 7, "amount": decimal.Decimal("2.00")}] * 2 + [None] * 2
    assert {row["at"] for row in found} == {dt.datetime(2024, 5, 1, 12, 30, 0, 123000, tzinfo=dt.UTC)}
    assert {row["place"] for row in found} == {24023128}


def test_what_the_envelope_says_of_a_mysql_table():
    block = [
        change("u", before=ROW, after=ROW, source=mysql_source()),
        change("c", after=ROW, source=mysql_source(ts_ms=None)),
    ]
    found = rows(opened("debezium", ENVELOPE, envelope=ASKED), list(map(written, block)))
    assert [row["place"] for row in found] == [None, None]
    assert [row["at"].microsecond for row in found] == [0, 456000]


def test_a_column_of_the_table_may_have_the_name_of_a_part():
    schema = schema_of("op string, before string, kind string")
    messages = opened("debezium", schema, envelope={"kind": "op"})
    assert rows(messages, [written(change("c", after={"op": "x", "before": "y"}))]) == [
        {"op": "x", "before": "y", "kind": "insert"}
    ]


def test_a_message_without_a_value_gives_nothing():
    gone, new = written(change("d", before=ROW)), written(change("c", after=ROW))
    nothing = written({"schema": None, "payload": None})
    messages = opened("debezium", ORDERS, times="us")
    (part,) = messages.decode([gone, None, new, nothing, None])
    assert list(part.taken) == [0, 2]
    assert list(messages.decode([None, None])) == []
    first, bad, last = messages.decode([None, gone, b"oops", None, new])
    assert (list(first.taken), bad.index, list(last.taken)) == ([1], 2, [4])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"id": 1}, "it has no op"),
        (change("m", after=ROW), "unknown op 'm'"),
        (change("d"), "a change of op 'd' without 'before'"),
        (change("u", before=ROW), "a change of op 'u' without 'after'"),
        (change("t"), "truncates='skip'"),
        (change("c", after={**ROW, "id": None}), "'id' is null"),
        (change("c", after=[1]), "not an object"),
        (change("c", after={**ROW, "id": "x"}), "'id' has a value of another type"),
        (change("c", after={**ROW, "amount": "12.50"}), "decimals='text'"),
        (change("c", after={**ROW, "amount": "////f////////////////w=="}), "'amount' has a value of another type"),
        (change("c", after={**ROW, "at": 1.5}), "1.5 is no whole number"),
        (change("c", after={**ROW, "at": 2**62}), "out of range, the years 1 to 9999: is times='us' its unit?"),
        (change("c", after={**ROW, "day": 2932897}), "2932897 days since 1970 is out of range"),
        (change("c", after={**ROW, "at": 10**18}), "out of range"),
        (change("c", after={**ROW, "name": UNCHANGED}), "column 'name' did not change and was not sent"),
    ],
)
def test_bad_changes(value, said):
    good = written(change("c", after=ROW))
    messages = opened("debezium", ORDERS, times="us")
    found = check_neighbours(messages, [good] * 200 + [written(value)] + [good] * 200)
    assert [index for index, what in found.items() if what == "bad"] == [200]
    assert said in error(messages, written(value))


def test_before_that_does_not_fit_its_column_is_bad():
    block = [written(change("u", before={"id": before}, after=ROW)) for before in (1, "x", 3)]
    messages = opened("debezium", ENVELOPE, envelope=ASKED)
    assert [what == "bad" for what in check_neighbours(messages, block).values()] == [False, True, False]
    assert "column 'old': column 'id' has a value of another type" in error(messages, block[1])


def test_a_truncated_table_may_be_passed_over():
    messages = opened("debezium", ORDERS, times="us", truncates="skip")
    (part,) = messages.decode([written(change("t")), written(change("c", after=ROW))])
    assert list(part.taken) == [1]


@pytest.mark.parametrize(
    ("kind", "value", "times", "read"),
    [
        ("timestamp", 1714566600123, "ms", "2024-05-01T12:30:00.123000+00:00"),
        ("timestamp", 1714566600123456, "us", "2024-05-01T12:30:00.123456+00:00"),
        ("timestamp", 1714566600123456789, "ns", "2024-05-01T12:30:00.123456+00:00"),
        ("timestamp", -1, "ns", "1969-12-31T23:59:59.999999+00:00"),
        ("timestamp", -1, "us", "1969-12-31T23:59:59.999999+00:00"),
        ("timestamp", "2024-05-01T12:30:00.123456Z", None, "2024-05-01T12:30:00.123456+00:00"),
        ("timestamp_ntz", 1714566600123456, "us", "2024-05-01T12:30:00.123456"),
        ("timestamp_ntz", 1714566600123, {"value": "ms"}, "2024-05-01T12:30:00.123000"),
        ("date", 19844, None, "2024-05-01"),
        ("date", "2024-05-01", None, "2024-05-01"),
        ("date", -719162, None, "0001-01-01"),
    ],
)
def test_times(kind, value, times, read):
    messages = opened("debezium", schema_of({"value": kind}), times=times)
    message = written(change("c", after={"value": value}))
    for block in ([message], [message, b"bad"]):
        (part, *_) = messages.decode(block)
        assert batch_to_rows(part.rows)[0]["value"].isoformat() == read


def test_a_time_that_is_a_number_needs_its_unit():
    messages = opened("debezium", schema_of("at timestamp, until timestamp"), times={"until": "us"})
    assert rows(messages, [written(change("c", after={"until": 5}))])
    assert "pass times='ms', 'us' or 'ns'" in error(messages, written(change("c", after={"at": 5})))


@pytest.mark.parametrize(
    ("value", "decimals", "read"),
    [
        ("ew==", "base64", "1.23"),
        ("hQ==", "base64", "-1.23"),
        ("AA==", "base64", "0.00"),
        ("", "base64", "0.00"),
        ("////////////////////////hQ==", "base64", "-1.23"),
        ("1.23", "text", "1.23"),
        (1.23, "text", "1.23"),
        (1.23, "base64", "1.23"),
        (5, "base64", "5.00"),
        ({"scale": 3, "value": "BM4="}, "base64", "1.230"),
        ({"scale": 0, "value": "BQ=="}, "text", "5.00"),
    ],
)
def test_decimals(value, decimals, read):
    messages = opened("debezium", schema_of("value decimal(12,2)"), decimals=decimals)
    message = written(change("c", after={"value": value}))
    for block in ([message], [message, b"bad"]):
        (part, *_) = messages.decode(block)
        assert batch_to_rows(part.rows)[0]["value"] == decimal.Decimal(read)


def test_values_inside_others_are_read_alike():
    schema = schema_of(
        {"a": "array<timestamp>", "s": "struct<d:date,m:decimal(6,2)>", "p": "map<string,date>", "i": "array<int>"}
    )
    row = {"a": [5, None], "s": {"d": 1, "m": "ew=="}, "p": {"k": 2, "l": None}, "i": [1]}
    (found,) = rows(opened("debezium", schema, times="us"), [written(change("c", after=row))])
    assert found["a"] == [dt.datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC), None]
    assert found["s"] == {"d": dt.date(1970, 1, 2), "m": decimal.Decimal("1.23")}
    assert found["p"] == {"k": dt.date(1970, 1, 3), "l": None}


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("string", UNCHANGED, UNCHANGED),
        ("binary", base64.b64encode(UNCHANGED.encode()).decode(), UNCHANGED.encode()),
        ("array<string>", [UNCHANGED], [UNCHANGED]),
        ("map<string,string>", {UNCHANGED: UNCHANGED}, {UNCHANGED: UNCHANGED}),
    ],
)
def test_what_did_not_change_and_was_not_sent(kind, value, read):
    message = written(change("u", after={"id": 1, "value": value}))
    schema = schema_of({"id": "long", "value": kind})
    assert "'value' did not change" in error(opened("debezium", schema), message)
    assert rows(opened("debezium", schema, unchanged="placeholder"), [message]) == [{"id": 1, "value": read}]
    assert rows(opened("debezium", schema_of("id long")), [message]) == [{"id": 1}]


def test_text_about_it_is_only_text():
    message = written(change("u", after={"name": f"what is {UNCHANGED}?"}))
    assert rows(opened("debezium", schema_of("name string")), [message]) == [{"name": f"what is {UNCHANGED}?"}]


numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**5), 10**5) | st.integers(-(6 * 10**16), 3 * 10**17)
special = numbers.map(str) | st.binary(max_size=20).map(lambda data: f'"{base64.b64encode(data).decode()}"')


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_change_means_the_same_next_to_any_other(data):
    kinds = ["long", "string", "timestamp", "timestamp_ntz", "date", "decimal(10,2)", "binary", "double", "array<date>"]
    columns = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    schema = Schema(
        (
            *schema_of({f"c{place}": kind for place, kind in enumerate(columns)}),
            *schema_of("kind string, old struct<c0:string>"),
        )
    )
    fields = st.fixed_dictionaries({}, optional=dict.fromkeys([*schema.names[:-2], "more"], values | special)).map(
        text_of
    )
    texts = st.builds(
        lambda op, before, after: f'{{"before":{before},"after":{after},"op":"{op}"}}'.encode(),
        st.sampled_from("crudt"),
        fields | st.sampled_from(["null", '{"c0":"x"}']),
        fields | st.just("null"),
    )
    block = data.draw(st.lists(texts | st.sampled_from([None, b"{", b'{"op":"c"', b"\xff", b"{}"]), max_size=5))
    options = {
        "times": data.draw(st.sampled_from([None, "ms", "us", "ns", {"c0": "us"}])),
        "decimals": data.draw(st.sampled_from(["base64", "text"])),
        "truncates": data.draw(st.sampled_from(["fail", "skip"])),
    }
    check_neighbours(opened("debezium", schema, envelope={"kind": "op", "old": "before"}, **options), block)


@given(batches(), st.lists(st.sampled_from(["insert", "update", "delete", "read"]), min_size=5, max_size=5))
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_read_back(made, kinds):
    columns, batch = made
    schema = Schema((*columns, *schema_of("kind string, at timestamp, place long")))
    extra = schema_of("kind string, at timestamp, place long")
    at = dt.datetime(2024, 5, 1, 12, 30, 0, 123000, tzinfo=dt.UTC)
    more = rows_to_batch([{"kind": kind, "at": at, "place": 9} for kind in kinds[: batch.num_rows]], extra)
    for name in extra.names:
        batch = batch.append_column(name, more.column(name))
    asked = {"kind": "op", "at": "ts", "place": "lsn"}
    block = writing("debezium", schema, envelope=asked)(batch).to_pylist()
    found = list(opened("debezium", schema, envelope=asked, decimals="text").decode(block))
    assert len(found) == (batch.num_rows > 0)
    for part in found:
        assert repr(part.rows.to_pylist()) == repr(batch.to_pylist())


def test_rows_without_a_kind_are_written_as_inserts_and_before_as_it_is():
    schema = schema_of("id long, old struct<id:long>")
    batch = rows_to_batch([{"id": 1, "old": {"id": 0}}, {"id": 2, "old": None}], schema)
    block = writing("debezium", schema, envelope={"old": "before"})(batch).to_pylist()
    assert block == [b'{"before":{"id":0},"after":{"id":1},"op":"c"}', b'{"before":null,"after":{"id":2},"op":"c"}']
    assert outcomes(opened("debezium", schema, envelope={"old": "before"}), block).keys() == {0, 1}


def test_a_kind_that_is_none_is_refused():
    schema = schema_of("id long, kind string")
    with pytest.raises(InvalidSchema, match=r"FORMAT-007.*'upsert'.*delete, insert, read, update"):
        writing("debezium", schema, envelope={"kind": "op"})(rows_to_batch([{"id": 1, "kind": "upsert"}], schema))
