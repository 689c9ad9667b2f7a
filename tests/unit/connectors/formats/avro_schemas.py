"""Random Avro schemas as others write them, with values, and the columns that they become."""

import datetime as dt
import decimal
import io
import itertools

import fastavro
from hypothesis import strategies as st

from millstream.model.schema import Field, Schema
from millstream.model.types import parse_type

CONTEXT = decimal.Context(prec=60)
INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
instants = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
aware = instants.map(lambda time: time.replace(tzinfo=dt.UTC))
words = st.text(st.characters(codec="utf-8"), max_size=6)


def whole_milliseconds(time):
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def scaled(number):
    return decimal.Decimal(number).scaleb(-2, CONTEXT)


def decimals(digits):
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(scaled)


PLAIN = [
    ("boolean", st.booleans(), ["boolean"]),
    ("int", INT, ["int", "long", "double"]),
    ("long", LONG, ["long"]),
    ("float", st.floats(width=32, allow_nan=False), ["float", "double"]),
    ("double", st.floats(allow_nan=False), ["double"]),
    ("string", words, ["string"]),
    ("bytes", st.binary(max_size=6), ["binary"]),
    ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str), ["string"]),
    ({"type": "int", "logicalType": "date"}, st.dates(dt.date(1, 1, 2)), ["date"]),
    ({"type": "long", "logicalType": "timestamp-micros"}, aware, ["timestamp"]),
    ({"type": "long", "logicalType": "timestamp-millis"}, aware.map(whole_milliseconds), ["timestamp"]),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, instants, ["timestamp_ntz"]),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, instants.map(whole_milliseconds), ["timestamp_ntz"]),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        decimals(9),
        ["decimal(9,2)", "decimal(12,3)"],
    ),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}, decimals(38), ["decimal(38,2)"]),
]


@st.composite
def kinds(draw, names, depth=2):
    """An Avro type, a strategy for its values, and the type of a column."""
    shape = draw(
        st.sampled_from(
            ["plain"] * 3 + ["enum", "fixed", "decimal"] + ["array", "map", "record", "pairs"] * (depth > 0)
        )
    )
    match shape:
        case "enum":
            symbols = draw(st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=4, unique=True))
            return {"type": "enum", "name": next(names), "symbols": symbols}, st.sampled_from(symbols), "string"
        case "fixed":
            size = draw(st.integers(1, 5))
            return (
                {"type": "fixed", "name": next(names), "size": size},
                st.binary(min_size=size, max_size=size),
                "binary",
            )
        case "decimal":
            size = draw(st.sampled_from([5, 16, 20]))
            written = {
                "type": "fixed",
                "name": next(names),
                "size": size,
                "logicalType": "decimal",
                "precision": 9,
                "scale": 2,
            }
            return written, decimals(9), "decimal(9,2)"
        case "array":
            written, values, column = draw(optional(names, depth - 1))
            return {"type": "array", "items": written}, st.lists(values, max_size=3), f"array<{column}>"
        case "map":
            written, values, column = draw(optional(names, depth - 1))
            return (
                {"type": "map", "values": written},
                st.dictionaries(words, values, max_size=3),
                f"map<string,{column}>",
            )
        case "record":
            return draw(records(names, depth - 1))
        case "pairs":
            written, values, column = draw(optional(names, depth - 1))
            pair = [{"name": "key", "type": "long"}, {"name": "value", "type": written}]
            items = {"type": "array", "items": {"type": "record", "name": next(names), "fields": pair}}
            entries = st.lists(
                st.fixed_dictionaries({"key": LONG, "value": values}), max_size=3, unique_by=lambda e: e["key"]
            )
            return items, entries, f"map<long,{column}>"
    written, values, columns = draw(st.sampled_from(PLAIN))
    return written, values, draw(st.sampled_from(columns))


@st.composite
def optional(draw, names, depth):
    written, values, column = draw(kinds(names, depth))
    match draw(st.sampled_from(["required", "null first", "null last"])):
        case "null first":
            return ["null", written], st.none() | values, column
        case "null last":
            return [written, "null"], st.none() | values, column
    return written, values, column


@st.composite
def records(draw, names, depth):
    """A record some of whose fields the columns leave out."""
    fields, values, columns = [], {}, []
    for number in range(draw(st.integers(1, 3))):
        written, value, column = draw(optional(names, depth))
        fields.append({"name": f"f{number}", "type": written})
        values[f"f{number}"] = value
        if number == 0 or draw(st.booleans()):
            columns.append(f"f{number}:{column}")
    made = {"type": "record", "name": next(names), "fields": fields}
    return made, st.fixed_dictionaries(values), f"struct<{','.join(columns)}>"


ASIDE = [
    ("null", st.none()),
    (["null", "int", "string"], st.none() | INT | words),
    (["string"], words),
    ({"type": "array", "items": ["int", "string"]}, st.lists(INT | words, max_size=2)),
    ({"type": "int", "logicalType": "time-millis"}, st.just(dt.time(1, 2, 3))),
    ({"type": "map", "values": {"type": "array", "items": "double"}}, st.just({"a": [1.0], "b": []})),
]


@st.composite
def writers(draw, min_rows=0):
    """An Avro schema, records of it, and the columns asked for, which need not be all nor only those."""
    names = (f"N{number}" for number in itertools.count())
    fields, values, columns = [], {}, []
    for number in range(draw(st.integers(1, 4))):
        written, value, column = draw(optional(names, 2))
        fields.append({"name": f"c{number}", "type": written})
        values[f"c{number}"] = value
        if draw(st.integers(0, 3)):
            columns.append(Field(f"c{number}", parse_type(column), draw(st.booleans()) or isinstance(written, list)))
    for number in range(draw(st.integers(0, 1))):
        written, value = draw(st.sampled_from(ASIDE))
        fields.append({"name": f"aside{number}", "type": written})
        values[f"aside{number}"] = value
    if draw(st.booleans()) or not columns:
        columns.append(Field("missing", parse_type("long")))
    draw(st.randoms()).shuffle(fields)
    rows = draw(st.lists(st.fixed_dictionaries(values), min_size=min_rows, max_size=5))
    return {"type": "record", "name": "R", "fields": fields}, rows, Schema(tuple(columns))


def bodies(schema, rows):
    """Messages as fastavro writes them."""
    parsed = fastavro.parse_schema(schema)
    made = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        made.append(stream.getvalue())
    return made


def read_by_fastavro(schema, message):
    """One message as fastavro reads it, by the writer's own schema; it must be read to its end."""
    stream = io.BytesIO(message)
    row = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.tell() == len(message)
    return row
