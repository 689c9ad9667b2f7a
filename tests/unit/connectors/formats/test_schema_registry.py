"""Avro with a schema registry: numbers before messages, schemas fetched once, and a registry that is not well."""

import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.connectors.formats.avro_schemas import bodies
from tests.unit.connectors.formats.messages import check_neighbours, opened, outcomes, writing
from tests.unit.connectors.formats.registry_stub import running_registry

from millstream.connectors.formats.avro import registry as schema_registry
from millstream.errors import ExternalFailure, InvalidStep
from millstream.model.schema import schema_of
from millstream.records.codecs import rows_to_batch

COLUMNS = schema_of("id long, name string, amount double")
OLD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "amount", "type": "float"}],
}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "note", "type": ["null", "string"]},
        {"name": "name", "type": "string"},
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "double"},
    ],
}
TEXT_ID = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}


def message(number, schema, row):
    return b"\0" + number.to_bytes(4, "big") + bodies(schema, [row])[0]


def old(number):
    return message(1, OLD, {"id": number, "amount": 0.5})


def new(number):
    return message(2, NEW, {"id": number, "amount": 0.25, "name": "x", "note": None})


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(schema_registry, "_PATIENCE", 0)


@pytest.fixture
def registry():
    with running_registry() as stub:
        stub.add(1, OLD)
        stub.add(2, NEW)
        stub.add(3, TEXT_ID)
        yield stub


def test_writers_of_two_schemas_become_the_same_columns_in_order(registry):
    block = [new(n) if n % 3 else old(n) for n in range(1000)]
    (part,) = opened("avro", COLUMNS, registry=registry.url).decode(block)
    assert part.taken == range(1000)
    assert part.rows.column("id").to_pylist() == list(range(1000))
    assert part.rows.column("name").to_pylist() == ["x" if n % 3 else None for n in range(1000)]
    assert part.rows.column("amount").to_pylist() == [0.25 if n % 3 else 0.5 for n in range(1000)]


def test_a_schema_is_fetched_once_in_a_process(registry):
    for _ in range(3):
        assert outcomes(opened("avro", COLUMNS, registry=registry.url), [old(1), new(2), old(3)]).keys() == {0, 1, 2}
    assert registry.asked == [("GET", "/schemas/ids/1"), ("GET", "/schemas/ids/2")]


def test_messages_of_schemas_that_do_not_fit_are_bad_and_say_why(registry):
    registry.add(4, {"type": "record", "name": "R", "fields": []}, schemaType="PROTOBUF")
    registry.add(5, OLD, references=[{"name": "other", "subject": "other", "version": 1}])
    block = [
        old(0),
        message(3, TEXT_ID, {"id": "a"}),
        new(2),
        b"\0\0\0\0\x04",
        b"\0\0\0\0\x05",
        b"\0\0\0\0\x63",
        b"\1\0\0\0\1\0\0",
        b"\0\0",
        old(8),
    ]
    messages = opened("avro", COLUMNS, registry=registry.url)
    assert [index for index, what in check_neighbours(messages, block).items() if what != "bad"] == [0, 2, 8]
    errors = {part.index: part.error for part in messages.decode(block) if hasattr(part, "error")}
    assert "column 'id' is string in the messages, which does not become long" in errors[1]
    assert "schema 4 of the registry is of type PROTOBUF" in errors[3]
    assert "refers to others" in errors[4]
    assert "does not know /schemas/ids/99: Schema not found" in errors[5]
    assert "does not begin with a zero" in errors[6]
    assert "does not begin with a zero" in errors[7]


def test_a_schema_that_is_registered_later_is_found_then(registry):
    messages = opened("avro", COLUMNS, registry=registry.url)
    late = message(9, OLD, {"id": 1, "amount": 1.0})
    assert outcomes(messages, [late]) == {0: "bad"}
    registry.add(9, OLD)
    assert outcomes(messages, [late]) == {0: "{'id': 1, 'name': None, 'amount': 1.0}"}


@given(st.lists(st.sampled_from("onbx0"), max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_is_read_as_one_by_one(registry, mixture):
    made = {"o": old(1), "n": new(2), "b": old(3)[:-1], "x": b"\0\0\0\0\x63zz", "0": None}
    check_neighbours(opened("avro", COLUMNS, registry=registry.url), [made[each] for each in mixture])


def test_the_schema_of_the_columns_is_registered_once(registry):
    batch = rows_to_batch([{"id": 1, "name": "ä", "amount": 1.5}, {"id": None, "name": None, "amount": None}], COLUMNS)
    for _ in range(3):
        written = writing("avro", COLUMNS, registry=registry.url, subject="orders/v")(batch)
    assert registry.asked == [("POST", "/subjects/orders%2Fv/versions")]
    assert {value[:5] for value in written.to_pylist()} == {b"\0\0\0\0\4"}
    (part,) = opened("avro", COLUMNS, registry=registry.url).decode(written.to_pylist())
    assert part.rows == batch


def test_a_schema_may_be_looked_up_only(registry):
    options = {"registry": registry.url, "subject": "orders", "register": False, "avro_schema": json.dumps(NEW)}
    with pytest.raises(
        InvalidStep, match=r"FORMAT-012.*no such schema under the subject 'orders'.*Subject 'orders' not found"
    ):
        writing("avro", schema_of("id long not null, name string not null, amount double not null"), **options)
    registry.subjects["orders"] = {json.dumps(NEW): 2}
    encode = writing("avro", schema_of("id long not null, name string not null, amount double not null"), **options)
    (value,) = encode(rows_to_batch([{"id": 7, "name": "x", "amount": 0.25}], COLUMNS)).to_pylist()
    assert value == new(7)


def test_an_incompatible_schema_is_refused_with_what_the_registry_says(registry):
    registry.broken = [(409, {"error_code": 409, "message": "Schema being registered is incompatible"})]
    with pytest.raises(InvalidStep, match=r"FORMAT-011.*incompatible"):
        writing("avro", COLUMNS, registry=registry.url, subject="orders")


def test_a_password_is_looked_up_and_never_shown(registry, monkeypatch):
    registry.login = "reader:p@ss:word/ü"
    monkeypatch.setenv("REGISTRY_PASSWORD", "p@ss:word/ü")
    address = registry.url.removeprefix("http://")
    messages = opened("avro", COLUMNS, registry=f"http://reader:${{secret:REGISTRY_PASSWORD}}@{address}/")
    assert outcomes(messages, [old(1)])[0] != "bad"
    with pytest.raises(ExternalFailure, match="401 Unauthorized") as caught:
        list(opened("avro", COLUMNS, registry=f"http://reader:hunter2@{address}").decode([old(1)]))
    assert "hunter2" not in str(caught.value)
    with pytest.raises(InvalidStep, match="RUN-022"):
        list(opened("avro", COLUMNS, registry=f"http://reader:${{secret:NOT_SET}}@{address}").decode([old(1)]))
    assert "reader:***@" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, {"error_code": 50001, "message": "backend"}), "500 backend"),
        ((404, b"<html>not here</html>"), "404 Not Found"),
        ((200, b"[1, 2]"), "an answer without 'schema'"),
        ((200, {"id": 1}), "an answer without 'schema'"),
        ((200, b"oops"), "Expecting value"),
        ((302, b""), "302"),
    ],
)
def test_other_answers_are_failures_from_outside(registry, answer, said):
    registry.broken = [answer]
    messages = opened("avro", COLUMNS, registry=registry.url)
    with pytest.raises(ExternalFailure, match=r"FORMAT-010.*/schemas/ids/1") as caught:
        list(messages.decode([old(1)]))
    assert said in str(caught.value)
    assert outcomes(messages, [old(1)])[0] != "bad"


def test_a_registry_that_is_away_for_a_moment_is_asked_again(registry, monkeypatch):
    monkeypatch.setattr(schema_registry, "_PATIENCE", 30)
    registry.broken = [(503, {}), (500, {})]
    assert outcomes(opened("avro", COLUMNS, registry=registry.url), [old(1)])[0] != "bad"
    assert len(registry.asked) == 3


def test_a_registry_that_is_away_or_too_slow_fails(registry, monkeypatch):
    monkeypatch.setattr(schema_registry, "_SECONDS", 0.05)
    answered = threading.Event()
    registry.broken = [answered]
    with pytest.raises(ExternalFailure, match=r"FORMAT-010.*timed out"):
        list(opened("avro", COLUMNS, registry=registry.url).decode([old(1)]))
    answered.set()
    with running_registry() as gone:
        url = gone.url
    with pytest.raises(ExternalFailure, match=r"FORMAT-010.*refused"):
        list(opened("avro", COLUMNS, registry=url).decode([old(1)]))
