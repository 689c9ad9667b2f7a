"""Which Avro types become which columns, and which columns are written as which Avro types."""

import pytest

from millstream.connectors.formats.avro.columns import row_reading
from millstream.connectors.formats.avro.derived import schema_of_columns
from millstream.connectors.formats.avro.schema import avro_type
from millstream.connectors.formats.avro.writing import row_writing
from millstream.model.schema import schema_of

LOGICAL = {
    **{
        name: {"type": "long", "logicalType": name}
        for name in ("timestamp-millis", "local-timestamp-micros", "time-micros")
    },
    "date": {"type": "int", "logicalType": "date"},
    "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "enum": {"type": "enum", "name": "E", "symbols": ["A"]},
    "fixed": {"type": "fixed", "name": "F", "size": 4},
    "array": {"type": "array", "items": "int"},
    "map": {"type": "map", "values": "int"},
    "record": {"type": "record", "name": "N", "fields": [{"name": "x", "type": "int"}]},
    "pairs": {
        "type": "array",
        "items": {
            "type": "record",
            "name": "P",
            "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "int"}],
        },
    },
}
READ = {
    "boolean": {"boolean"},
    "int": {"tinyint", "int", "long", "float", "double"},
    "long": {"long", "float", "double", "timestamp"},
    "float": {"float", "double"},
    "double": {"double"},
    "string": {"string", "binary"},
    "bytes": {"string", "binary"},
    "timestamp-millis": {"long", "timestamp"},
    "local-timestamp-micros": {"long", "timestamp"},
    "time-micros": {"long", "float", "double"},
    "date": {"date", "tinyint", "int", "long"},
    "decimal": {"decimal(9,2)", "binary"},
    "enum": {"string"},
    "fixed": {"binary"},
    "array": {"array<long>"},
    "map": {"map<string,int>"},
    "record": {"struct<x:long,y:string>"},
    "pairs": {"map<int,int>", "array<struct<key:int>>"},
}
COLUMNS = sorted(set().union(*READ.values()))


def record(kind):
    return avro_type({"type": "record", "name": "R", "fields": [{"name": "a", "type": LOGICAL.get(kind, kind)}]})


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("form", ["alone", "or null"])
def test_what_a_type_becomes(kind, form):
    written = LOGICAL.get(kind, kind) if form == "alone" else ["null", LOGICAL.get(kind, kind)]
    writer = avro_type({"type": "record", "name": "R", "fields": [{"name": "a", "type": written}]})
    found = set()
    for column in COLUMNS:
        try:
            row_reading(writer, schema_of({"a": column}))
            found.add(column)
        except ValueError as problem:
            assert "column 'a" in str(problem)
    assert found == READ[kind]


WRITTEN = {
    "boolean": {"boolean"},
    "tinyint": {"int", "long", "float", "double", "time-micros"},
    "long": {"long", "float", "double", "time-micros"},
    "float": {"float", "double"},
    "double": {"double"},
    "string": {"string", "bytes", "enum"},
    "binary": {"bytes", "fixed"},
    "date": {"date"},
    "timestamp": {"timestamp-millis", "local-timestamp-micros"},
    "decimal(9,2)": {"decimal"},
    "array<int>": {"array"},
    "map<string,int>": {"map"},
    "map<int,int>": {"pairs"},
    "struct<x:int>": {"record"},
}


@pytest.mark.parametrize("column", WRITTEN)
def test_what_a_column_is_written_as(column):
    found = set()
    for kind in READ:
        try:
            row_writing(record(kind), schema_of({"a": column}))
            found.add(kind)
        except ValueError as problem:
            assert "column 'a" in str(problem)
    assert found == WRITTEN[column]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}, "'R' holds itself"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "Other"}]}, "unknown Avro type 'Other'"),
        ({"type": "record", "name": "R"}, "without 'fields'"),
        ({"fields": []}, "not an Avro schema"),
        ("{oops", "Expecting property name"),
        ({"type": "array", "items": "null"}, "take no bytes"),
        (["null", "int", "string"], "int or string"),
        ("int", "messages are int, not records"),
        ({"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]}, "'a' is not in the schema"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "null"}]}, "'a' is not in the schema"),
    ],
)
def test_schemas_that_give_no_rows(schema, said):
    columns = schema_of("a long not null") if isinstance(schema, list) else schema_of("a long not null, b int")
    with pytest.raises(ValueError, match=said):
        row_reading(avro_type(schema), columns)


def test_names_are_found_in_their_namespace():
    inner = {"type": "record", "name": "In", "namespace": "x.y", "fields": [{"name": "n", "type": "int"}]}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "x.y.In"}, {"name": "c", "type": ["null", "x.y.In"]}]
    writer = avro_type({"type": "record", "name": "R", "namespace": "x", "fields": fields})
    assert dict(writer.fields)["b"] == dict(writer.fields)["a"]
    again = avro_type(
        {
            "type": "record",
            "name": "x.R",
            "fields": [{"name": "a", "type": {**inner, "namespace": "x"}}, {"name": "b", "type": "In"}],
        }
    )
    assert dict(again.fields)["b"] == dict(again.fields)["a"]


def test_what_the_columns_have_and_the_schema_lacks():
    writer = avro_type(
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}
    )
    with pytest.raises(ValueError, match="column 'c' is not in the Avro schema"):
        row_writing(writer, schema_of("a int, c int"))
    with pytest.raises(ValueError, match="field 'b' of the Avro schema is no column"):
        row_writing(writer, schema_of("a int"))


def test_names_that_avro_does_not_take():
    with pytest.raises(ValueError, match="column 'a b' has a name"):
        schema_of_columns(schema_of("`a b` int"))
