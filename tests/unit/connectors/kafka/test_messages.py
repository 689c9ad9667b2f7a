"""From rows to messages, and which columns they are made of."""

import datetime as dt
import json
import zlib

import pyarrow as pa
import pytest
from tests.unit.connectors.kafka.sink_under_test import options_of

from millstream.connectors.kafka.outgoing.latest import latest_per_key
from millstream.connectors.kafka.outgoing.messages import MessageEncoder
from millstream.connectors.kafka.spec import DECLARATION, kafka
from millstream.errors import InvalidStep, StepFailed
from millstream.model.schema import schema_of
from millstream.records.codecs import rows_to_batch

SERVERS = "127.0.0.1:9092"


def encoded(rows, schema, topics="out", **options):
    """The messages of rows as dicts of what they have."""
    return batch_of(rows, schema, topics, **options).to_pylist()


def batch_of(rows, schema, topics="out", **options):
    made, typed = options_of(kafka(topics, servers=SERVERS, **options)), schema_of(schema)
    DECLARATION.sink.check(made, typed, "out")
    return MessageEncoder(made, typed, step="out").encode(rows_to_batch(rows, typed))


def refused(schema, topics="out", **options):
    with pytest.raises(InvalidStep) as problem:
        encoded([], schema, topics, **options)
    assert problem.value.step == "out"
    return str(problem.value)


# Value and key


def test_all_columns_are_the_value_and_a_key_is_one_of_them():
    (message,) = encoded([{"id": "a", "n": 1}], "id string, n long", key_fields="id")
    assert message == {"value": b'{"id":"a","n":1}', "key": b"a"}


def test_a_key_of_other_columns_is_json():
    rows = [{"id": 7, "n": 1}]
    assert encoded(rows, "id long, n long", key_fields=["id"])[0]["key"] == b'{"id":7}'
    assert encoded(rows, "id long, n long", key_fields=["n", "id"], key_format="csv")[0]["key"] == b"1,7"


def test_chosen_columns_and_raw_values():
    rows = [{"id": "a", "body": b"\x00\xff"}, {"id": "b", "body": None}]
    messages = encoded(rows, "id string, body binary", key_fields="id", value_fields=["body"], format="raw")
    assert [message["value"] for message in messages] == [b"\x00\xff", None]


# Upsert


def test_a_deleted_row_is_a_tombstone_and_the_operation_is_not_in_the_value():
    rows = [{"id": "a", "n": 1, "op": kind} for kind in ("insert", "delete", "update", "read")]
    messages = encoded(rows, "id string, n long, op string", key_fields="id", mode="upsert")
    assert [message["value"] is None for message in messages] == [False, True, False, False]
    assert json.loads(messages[0]["value"]) == {"id": "a", "n": 1}


def test_the_operation_may_have_another_name_and_is_a_column_like_others_without_upsert():
    rows = [{"id": "a", "op": "delete", "kind": "delete"}]
    schema = "id string, op string, kind string"
    assert encoded(rows, schema, key_fields="id", mode="upsert", op_field="kind")[0]["value"] is None
    assert json.loads(encoded(rows, schema)[0]["value"])["op"] == "delete"


@pytest.mark.parametrize("kind", ["d", "truncate", None])
def test_a_change_that_is_none_stops_the_job(kind):
    with pytest.raises(StepFailed, match=rf"KAFKA-021.*change.*found {kind!r}.*known: delete, insert, read, update"):
        encoded([{"id": "a", "op": kind}], "id string, op string", key_fields="id", mode="upsert")


def test_a_key_that_is_null_stops_an_upsert():
    with pytest.raises(StepFailed, match=r"KAFKA-021.*key that is null"):
        encoded([{"id": None, "n": 1}], "id string, n long", key_fields="id", mode="upsert")


def test_of_several_messages_with_a_key_the_last_is_left_in_its_place():
    rows = [{"id": key, "n": n} for n, key in enumerate("abacb")]
    batch = batch_of(rows, "id string, n long", key_fields="id", mode="upsert")
    cut = [batch.slice(0, 2), batch.slice(2, 1), batch.slice(3)]
    left = [json.loads(value)["n"] for part in latest_per_key(cut) for value in part.column("value").to_pylist()]
    assert left == [2, 3, 4]
    assert list(latest_per_key([])) == []


def test_a_key_in_two_topics_is_two_keys():
    rows = [{"id": "a", "to": topic, "n": n} for n, topic in enumerate(("x", "y", "x"))]
    batch = batch_of(rows, "id string, `to` string, n long", (), key_fields="id", mode="upsert", topic_field="to")
    (left,) = latest_per_key([batch])
    assert left.column("topic").to_pylist() == ["y", "x"]


# Where to


def test_the_topic_of_a_row_stands_in_a_column():
    rows = [{"to": "a", "n": 1}, {"to": None, "n": 2}]
    assert [m["topic"] for m in encoded(rows, "`to` string, n long", "rest", topic_field="to")] == ["a", "rest"]
    assert encoded(rows[:1], "`to` string, n long", (), topic_field="to")[0]["value"] == b'{"n":1}'
    with pytest.raises(StepFailed, match=r"KAFKA-021.*topic that is null"):
        encoded(rows, "`to` string, n long", (), topic_field="to")


@pytest.mark.parametrize(
    "topic",
    ["", "a b", "a/b", "x" * 250, ".", "..", "a\n", "é", "__consumer_offsets", "millstream-marks-job-out-0123456789ab"],
)
def test_a_topic_that_no_message_can_go_to_stops_the_job_before_its_epoch_is_durable(topic):
    rows = [{"to": "good", "n": 1}, {"to": topic, "n": 2}]
    with pytest.raises(StepFailed, match=r"KAFKA-021.*cannot be written to"):
        encoded(rows, "`to` string, n long", "rest", topic_field="to")


def test_rows_with_the_same_values_go_the_same_way_in_every_process():
    rows = [{"land": "de", "n": 1}, {"land": "fr", "n": 1}, {"land": "de", "n": 2}]
    spread = [message["spread"] for message in encoded(rows, "land string, n long", partition_by="land")]
    assert spread == [zlib.crc32(b"de"), zlib.crc32(b"fr"), zlib.crc32(b"de")]


def test_the_partition_may_stand_in_a_column():
    rows = [{"p": 2, "n": 1}, {"p": None, "n": 1}]
    messages = encoded(rows, "p int, n long", partition_field="p")
    assert [message["partition"] for message in messages] == [2, -1]
    assert messages[0]["value"] == b'{"n":1}'
    for wrong in (-1, -2):
        with pytest.raises(StepFailed, match=rf"KAFKA-021.*partition that is none.*found {wrong}"):
            encoded([{"p": wrong, "n": 1}], "p int, n long", partition_field="p")


# Time and headers


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_the_time_of_a_message_is_cut_to_milliseconds(kind):
    zone = dt.UTC if kind == "timestamp" else None
    rows = [{"at": dt.datetime(2024, 1, 1, 0, 0, 0, 1999, tzinfo=zone)}, {"at": None}]
    assert [m["timestamp"] for m in encoded(rows, f"at {kind}", timestamp="at")] == [1704067200001, 0]


def test_a_time_before_1970_stops_the_job():
    with pytest.raises(StepFailed, match=r"KAFKA-021.*before 1970"):
        encoded([{"at": dt.datetime(1969, 1, 1, tzinfo=dt.UTC)}], "at timestamp", timestamp="at")


def test_columns_become_headers_and_nulls_none():
    rows = [{"n": 1, "trace": "t1", "raw": b"\xff", "count": 5}, {"n": 2, "trace": None, "raw": None, "count": None}]
    named = {"trace-id": "trace", "bytes": "raw", "n": "count"}
    messages = encoded(rows, "n long, trace string, raw binary, count int", headers=named)
    assert messages[0]["headers"] == [("trace-id", b"t1"), ("bytes", b"\xff"), ("n", b"5")]
    assert messages[1]["headers"] == []
    assert messages[0]["value"] == b'{"n":1}'


@pytest.mark.parametrize("kind", ["map<string,string>", "map<string,binary>", "array<struct<key:string,value:binary>>"])
def test_a_column_holds_all_headers(kind):
    as_bytes = "binary" in kind
    value = b"v" if as_bytes else "v"
    cell = [{"key": "k", "value": value}] if kind.startswith("array") else {"k": value}
    rows = [{"n": 1, "h": cell}, {"n": 2, "h": None}]
    messages = encoded(rows, f"n long, h {kind}", headers="h")
    assert [message["headers"] for message in messages] == [[("k", b"v")], None]
    assert messages[0]["value"] == b'{"n":1}'


def test_a_header_without_a_name_stops_the_job():
    rows = [{"n": 1, "h": [{"key": "k", "value": None}, None]}, {"n": 2, "h": [{"key": None, "value": b"v"}]}]
    schema = "n long, h array<struct<key:string,value:binary>>"
    with pytest.raises(StepFailed, match=r"KAFKA-021.*header without a name"):
        encoded(rows, schema, headers="h")
    assert encoded(rows[:1], schema, headers="h")[0]["headers"] == [("k", None)]


# Refusals


def test_options_that_do_not_go_together():
    assert "one topic" in refused("n long", ["a", "b"])
    assert "topic_field=" in refused("n long", ())
    assert "key_fields=" in refused("n long", mode="upsert")
    assert "key_fields=" in refused("n long", key_format="raw")
    assert "leave one" in refused("a int, n long", partition_by="n", partition_field="a")
    assert "FORMAT-002" in refused("a string, b string", format="raw")
    assert "FORMAT-002" in refused("a long, b string", key_fields="a", key_format="raw")
    assert "value_fields=" in refused("a string", topic_field="a")
    assert "leave op_field= out" in refused("a string, n long", op_field="a")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("key_fields", ["x"]),
        ("value_fields", ["x"]),
        ("partition_by", "x"),
        ("partition_field", "x"),
        ("topic_field", "x"),
        ("timestamp", "x"),
        ("headers", "x"),
        ("headers", {"h": "x"}),
    ],
)
def test_a_column_that_is_not_there(option, value):
    text = refused("n long", **{option: value})
    assert "KAFKA-020" in text
    assert f"{option}= names 'x'" in text
    assert "known: n" in text


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [
        ("topic_field", "n", "string"),
        ("partition_field", "s", "byte, short, int or long"),
        ("timestamp", "n", "timestamp or timestamp_ntz"),
        ("headers", "n", "map<string,string>"),
        ("headers", {"h": "list"}, "not nested"),
    ],
)
def test_a_column_of_another_type(option, value, known):
    text = refused("n long, s string, list array<long>", **{option: value})
    assert f"{option}= names" in text
    assert known in text


def test_a_column_that_is_to_tell_deletes_and_is_not_there():
    """Without it every delete would be written as a row."""
    text = refused("id string, op string", key_fields="id", mode="upsert", op_field="kind")
    assert "op_field= names 'kind'" in text
    assert encoded([{"id": "a"}], "id string", key_fields="id", mode="upsert")[0]["key"] == b"a"


def test_an_operation_of_another_type():
    assert "op_field= names 'op'" in refused("id string, op long", key_fields="id", mode="upsert")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("servers", "nonsense"),
        ("servers", []),
        ("servers", "user:pw@host:9092/x"),
        ("topics", "a b"),
        ("mode", "merge"),
        ("format", "xml"),
        ("transaction_timeout", "10ms"),
        ("transaction_timeout", "soon"),
        ("prefix", "a b"),
        ("headers", {"a": 1}),
        ("key_fields", ["a", "a"]),
    ],
)
def test_values_that_no_option_takes(option, value):
    with pytest.raises(InvalidStep, match=option):
        options_of(kafka(**{"topics": "out", "servers": SERVERS, option: value}))


def test_messages_have_only_the_columns_they_need():
    assert batch_of([], "n long").schema.names == ["value"]
    assert pa.types.is_map(batch_of([], "n long, h map<string,string>", headers="h").schema.field("headers").type)
