"""Messages of Avro: read in blocks, and compared with what fastavro reads message by message."""

import datetime as dt
import decimal
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.formats.avro_schemas import bodies, read_by_fastavro, writers
from tests.unit.connectors.formats.messages import check_neighbours, opened, outcomes, writing
from tests.unit.connectors.formats.schemas import batches

from millstream.connectors.formats.avro.derived import schema_of_columns
from millstream.errors import InvalidSchema, InvalidStep
from millstream.model.schema import schema_of
from millstream.records.codecs import rows_to_batch

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "home",
            "type": {"type": "record", "name": "Address", "fields": [{"name": "street", "type": "string"}]},
        },
        {"name": "work", "type": ["null", "Address"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    ],
}
COLUMNS = schema_of("id long not null, at timestamp, work struct<street:string>, state string, amount decimal(10,2)")


def order(number):
    return {
        "id": number,
        "at": dt.datetime(2024, 5, 1, tzinfo=dt.UTC),
        "home": {"street": "a"},
        "work": None if number % 2 else {"street": "b"},
        "state": "PAID",
        "amount": decimal.Decimal("-1.25"),
    }


def expected(schema, message, columns):
    """The row that fastavro reads, as pairs for maps that are written as such."""
    row = read_by_fastavro(schema, message)
    return {field.name: fitted(row.get(field.name), field.type) for field in columns}


def fitted(value, kind):
    if value is None:
        return None
    match str(kind).partition("<")[0]:
        case "map":
            pairs = value.items() if isinstance(value, dict) else [(each["key"], each["value"]) for each in value]
            return [(key, fitted(item, kind.item_type)) for key, item in pairs]
        case "list":
            return [fitted(item, kind.value_type) for item in value]
        case "struct":
            return {field.name: fitted(value.get(field.name), field.type) for field in kind}
    return str(value) if str(kind) == "string" else value


def test_a_good_block_is_one_batch():
    (part,) = opened("avro", COLUMNS, avro_schema=ORDER).decode(bodies(ORDER, map(order, range(5000))))
    assert part.taken == range(5000)
    assert part.rows == rows_to_batch([{name: order(n)[name] for name in COLUMNS.names} for n in range(5000)], COLUMNS)


@given(writers())
@settings(max_examples=300, deadline=None)
def test_rows_are_those_that_fastavro_reads(made):
    written, rows, columns = made
    block = bodies(written, rows)
    found = list(opened("avro", columns, avro_schema=written).decode(block))
    assert len(found) == bool(rows)
    for part in found:
        assert part.taken == range(len(rows))
        wanted = rows_to_batch([expected(written, message, columns) for message in block], columns)
        assert part.rows == wanted


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_message_leaves_the_others_as_they_were(data):
    written, rows, columns = data.draw(writers(min_rows=2))
    block = bodies(written, rows)
    place = data.draw(st.integers(0, len(block) - 1))
    messages = opened("avro", columns, avro_schema=written)
    before = outcomes(messages, block)
    after = check_neighbours(messages, [*block[:place], damaged(data.draw, block[place]), *block[place + 1 :]])
    assert {**after, place: None} == {**before, place: None}


def damaged(draw, message):
    cut = draw(st.integers(0, len(message)))
    match draw(st.sampled_from(["other", "less", "more"])):
        case "less":
            return message[:cut] + message[cut + 1 :]
        case "more":
            return message[:cut] + draw(st.binary(min_size=1, max_size=3)) + message[cut:]
    return message[:cut] + draw(st.binary(min_size=1, max_size=1)) + message[cut + 1 :]


@given(batches())
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back_by_us_and_by_fastavro(made):
    schema, batch = made
    written = schema_of_columns(schema)
    block = writing("avro", schema)(batch).to_pylist()
    found = list(opened("avro", schema, avro_schema=written).decode(block))
    assert len(found) == (batch.num_rows > 0)
    for part in found:
        assert repr(part.rows.to_pylist()) == repr(batch.to_pylist())
        theirs = rows_to_batch([expected(written, message, schema) for message in block], schema)
        assert repr(theirs.to_pylist()) == repr(batch.to_pylist())


def test_bytes_left_behind_a_message_are_seen():
    block = bodies(ORDER, map(order, range(1000)))
    # What one has too many, the next has too few: together they are as long as they should be.
    block[500], block[501] = block[500] + block[501][:3], block[501][3:]
    first, left, missing, last = opened("avro", COLUMNS, avro_schema=ORDER).decode(block)
    assert (first.taken, last.taken) == (range(500), range(502, 1000))
    assert (left.index, missing.index) == (500, 501)
    assert "3 bytes are left behind it" in left.error


NULLABLE = ["null", "long"]
PLACES_OF_UNIONS = {
    "first": (NULLABLE, lambda union: union, "n long"),
    "null last": (["long", "null"], lambda union: union, "n long"),
    "of three": (["null", "long", "long"], lambda union: union, None),
    "in a record": (NULLABLE, lambda union: record({"x": "string", "n": union}), "r struct<n:long>"),
    "in an array": (NULLABLE, lambda union: {"type": "array", "items": union}, "r array<long>"),
    "in a map": (NULLABLE, lambda union: {"type": "map", "values": union}, "r map<string,long>"),
    "not asked for": (NULLABLE, lambda union: union, None),
}
BEFORE = {"in a record": b"\x04ab", "in an array": b"\x02", "in a map": b"\x02\x02k"}
BEHIND = {"in an array": b"\x00", "in a map": b"\x00"}


def record(fields):
    return {
        "type": "record",
        "name": f"R{len(fields)}",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


@pytest.mark.parametrize("place", PLACES_OF_UNIONS)
@pytest.mark.parametrize("branch", [b"\x04", b"\x06", b"\x01", b"\x03", b"\x05", b"\xfe\xff\x03"])
@pytest.mark.parametrize("has_value", [True, False])
def test_a_branch_that_a_union_does_not_have_is_a_bad_message(place, branch, has_value):
    """Readers take such a number for one of the branches."""
    union, kind, column = PLACES_OF_UNIONS[place]
    if place == "of three" and branch == b"\x04":
        return
    name = "r" if column and column.startswith("r") else "n"
    written = record({name: kind(union), "last": "long"})
    good = union.index("long") * 2
    before, behind = BEFORE.get(place, b""), BEHIND.get(place, b"")
    block = [before + bytes([good]) + b"\x0e" + behind + b"\x12"] * 300
    block[77] = before + branch + (b"\x0e" if has_value else b"") + behind + b"\x12"
    columns = schema_of(f"{column}, last long" if column else "last long")
    found = check_neighbours(opened("avro", columns, avro_schema=written), block)
    assert [index for index, what in found.items() if what == "bad"] == [77]


def test_values_that_fit_no_column_are_bad_messages():
    written = {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "int"]}]}
    block = bodies(written, [{"n": 1}, {"n": 200}, {"n": None}, {"n": -1}])
    found = check_neighbours(opened("avro", schema_of("n tinyint not null"), avro_schema=written), block)
    assert [index for index, what in found.items() if what == "bad"] == [1, 2]


def test_a_message_without_a_value_is_bad():
    _, bad, _ = opened("avro", COLUMNS, avro_schema=ORDER).decode(
        [*bodies(ORDER, [order(1)]), None, *bodies(ORDER, [order(2)])]
    )
    assert "null value" in bad.error


@pytest.mark.parametrize("written", ["long", '"long"', {"type": "long"}, ["null", "long"]])
def test_a_message_that_is_no_record_is_the_only_column(written):
    schema = schema_of("key long")
    batch = rows_to_batch([{"key": 7}, {"key": -1}], schema)
    block = writing("avro", schema, avro_schema=written)(batch).to_pylist()
    (part,) = opened("avro", schema, avro_schema=written).decode(block)
    assert part.rows == batch


@pytest.mark.parametrize("module", ["polars", "fastavro"])
def test_without_the_libraries_the_command_that_installs_them_is_named(monkeypatch, module):
    for name in [name for name in sys.modules if name.startswith("millstream.connectors.formats.avro.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidStep, match=r"\[CONN-010\].*pip install 'millstream\[avro\]'"):
        opened("avro", COLUMNS, avro_schema=ORDER)


def test_rows_that_do_not_fit_the_schema_are_refused():
    written = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "state", "type": {"type": "enum", "name": "S", "symbols": ["A"]}}],
    }
    schema = schema_of("state string")
    encode = writing("avro", schema, avro_schema=written)
    with pytest.raises(InvalidSchema, match=r"FORMAT-005.*'B' is none of the symbols A"):
        encode(rows_to_batch([{"state": "A"}, {"state": "B"}], schema))
    with pytest.raises(InvalidSchema, match=r"FORMAT-005.*'state' is null"):
        encode(rows_to_batch([{"state": None}], schema))
