import pytest
from tests.servers.http import Reply
from tests.unit.connectors.http.apis import SCHEMA, checked, pages_of, refused, rows

import millstream as ms
from millstream.connectors.http.inference import schema_from
from millstream.connectors.http.sample import infer_schema, sample
from millstream.contract.source import BadRecord
from millstream.errors import InvalidSchema, InvalidStep, StepFailed
from millstream.inspect.connectors.trying import try_step
from millstream.records.codecs import batch_to_rows

PAGED = {"records": "items", "paginator": {"type": "page"}}


@pytest.mark.parametrize(
    ("records", "ddl"),
    [
        ([{"a": 1, "b": "x"}, {"b": None, "c": True}], "a long, b string, c boolean"),
        ([{"a": 1}, {"a": 1.5}, {"a": None}], "a double"),
        ([{"a": 2**63}], "a double"),
        ([{"a": None}], "a string"),
        ([{"a": 1}, {"a": "x"}], "a string"),
        ([{"a": True}, {"a": 1}], "a string"),
        ([{"a": "2024-05-01"}], "a date"),
        ([{"a": "2024-05-01T10:00:00Z"}, {"a": "2024-05-01T10:00:00.5+02:00"}], "a timestamp"),
        ([{"a": "2024-05-01T10:00:00"}], "a string"),
        ([{"a": [1, 2]}, {"a": []}], "a array<long>"),
        ([{"a": []}], "a array<string>"),
        ([{"a": {"x": 1}}, {"a": {"y": [{"z": "t"}]}}], "a struct<x:long,y:array<struct<z:string>>>"),
        ([{"a": {}}], "a string"),
        ([7, "text", None, {"__ms_x": 1, "": 2, "a": 1}], "a long"),
        ([{"two words": 1}], "`two words` long"),
    ],
)
def test_a_schema_from_records(records, ddl):
    assert schema_from(records).ddl == ddl


def test_a_schema_from_csv():
    row = {"a": "1", "b": "1.5", "c": "true", "d": "", "e": "x", "f": "2024-05-01"}
    assert schema_from([row], texts=True).ddl == "a long, b double, c boolean, d string, e string, f date"


def test_the_first_page_is_read_as_a_run_would(api):
    api.answer = pages_of(rows(20), 10)
    _, _, batch = sample(checked(f"{api.url}/items", **PAGED), SCHEMA, 3)
    assert batch_to_rows(batch) == rows(3)
    assert len(api.asked) == 1


def test_bad_records_of_a_test_page_are_shown(api):
    api.answer = lambda asked: {"items": [{"id": "x"}, *rows(5)]}
    _, _, bad, batch = sample(checked(f"{api.url}/items", **PAGED), SCHEMA, 2)
    assert isinstance(bad, BadRecord)
    assert bad.origin.endswith("page=1 page 1 item 1")
    assert batch.num_rows == 2


def test_the_first_child_of_the_first_parent(api):
    api.answer = lambda asked: {"items": [{"id": 7}, {"id": 8}]} if asked.path == "/parents" else {"items": rows(2)}
    slices = {"type": "parent", "request": {"url": f"{api.url}/parents", "records": "items"}, "fields": {"p": "id"}}
    options = checked(f"{api.url}/of/${{slice:p}}", records="items", slices=slices)
    assert infer_schema(options).ddl == "id long, name string"
    assert api.paths() == ["/parents", "/of/7"]


def test_a_look_at_a_source_says_what_comes(api):
    api.answer = pages_of(rows(20), 10)
    job = ms.Job("looked")
    job.source("in", ms.http(f"{api.url}/items", **PAGED, allow_private=True), schema="id long").sink("out", ms.print())
    shown = try_step(job, "in", limit=2, seconds=10)
    assert shown.found == [
        f"{api.url}/items?page=1 page 1: 10 records",
        "their schema seems to be: id long, name string",
    ]
    assert [row["id"] for row in shown.rows] == [1, 2]


def test_a_look_at_a_source_that_is_refused_names_the_step(api):
    api.answer = lambda asked: refused(403)
    job = ms.Job("looked")
    job.source("in", ms.http(f"{api.url}/items", allow_private=True), schema="id long").sink("out", ms.print())
    with pytest.raises(StepFailed) as failed:
        try_step(job, "in", limit=2, seconds=10)
    assert failed.value.step == "in"


def test_nothing_to_ask_for(api):
    options = checked(f"{api.url}/${{slice:n}}", slices={"type": "list", "name": "n", "values": []})
    assert sample(options, SCHEMA, 5) == ["nothing to ask for"]


@pytest.mark.parametrize("answer", [{"items": []}, {}, {"items": [1, 2]}])
def test_a_page_without_records_tells_no_schema(api, answer):
    api.answer = lambda asked: answer
    with pytest.raises(InvalidSchema) as refused_schema:
        infer_schema(checked(f"{api.url}/items", **PAGED))
    assert refused_schema.value.code == "HTTP-004"


def test_an_answer_that_fails_says_why(api):
    api.answer = lambda asked: refused(404)
    with pytest.raises(StepFailed) as failed:
        infer_schema(checked(f"{api.url}/items", **PAGED))
    assert failed.value.code == "HTTP-010"


def test_a_job_takes_the_schema_of_a_page_when_it_is_asked_to(api):
    api.answer = lambda asked: Reply(b'{"items": [{"id": 1, "at": "2024-05-01T10:00:00Z"}]}')
    job = ms.Job("inferred")
    stream = job.source("in", ms.http(f"{api.url}/items", **PAGED, allow_private=True, infer_schema=True))
    assert stream.schema.ddl == "id long, at timestamp"


def test_without_being_asked_nothing_is_fetched(api):
    with pytest.raises(InvalidStep) as refused_step:
        ms.Job("plain").source("in", ms.http(f"{api.url}/items", allow_private=True))
    assert refused_step.value.code == "STEP-061"
    assert api.asked == []
