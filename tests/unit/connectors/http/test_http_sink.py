"""What the http sink sends, and what becomes of answers."""

import dataclasses
import decimal
import json
import threading

import pytest
from tests.servers.http import Reply, serving
from tests.unit.connectors.http.apis import refused
from tests.unit.connectors.sinks.under_test import Owner, rows

import millstream as ms
from millstream.connectors.http.sending import batch_key
from millstream.connectors.http.sink import HttpCommitter, HttpWriter
from millstream.connectors.http.spec import DECLARATION
from millstream.errors import ExternalFailure, Fenced, InvalidPlan, InvalidStep, StepFailed
from millstream.model.connector import checked_options
from millstream.model.guarantee import SinkCapability
from millstream.model.schema import schema_of

SCHEMA = schema_of("id long, name string")


class Sending:
    """Opens the halves of a sink, as runs do."""

    def __init__(self, url, folder, heartbeat=lambda: None, **options):
        given = ms.http(url, allow_private=True, **options).options
        self.options = checked_options(DECLARATION.sink.options, given, step="out", name="http")
        DECLARATION.sink.check(self.options, SCHEMA, "out")
        self.folder, self.heartbeat, self.opened = folder, heartbeat, []

    def writer(self, task, schema):
        return HttpWriter(self.options, schema, dataclasses.replace(task, staging=str(self.folder / task.lineage)))

    def committer(self, context):
        changed = dataclasses.replace(context, staging=str(self.folder / context.lineage), heartbeat=self.heartbeat)
        self.opened.append(HttpCommitter(self.options, changed))
        return self.opened[-1]


@pytest.fixture
def sending(api, tmp_path):
    made = []

    def build(**options):
        made.append(Sending(f"{api.url}/rows", tmp_path, **options))
        return made[-1]

    yield build
    for each in made:
        for committer in each.opened:
            committer.close()


def send(sink, *tasks, epoch=0, token=1):
    return Owner(sink, token=token, schema=SCHEMA).run(epoch, *tasks)


def named(*numbers):
    return [{"id": number, "name": f"n{number}"} for number in numbers]


def test_batches_are_named_by_who_sends_them(api, sending):
    send(sending(batch_rows=2), named(1, 2, 3), named(4), epoch=7)
    assert [(each.headers["idempotency-key"], each.json) for each in api.asked] == [
        ("job/one/out/7/0-0/0", named(1, 2)),
        ("job/one/out/7/0-0/1", named(3)),
        ("job/one/out/7/0-1/0", named(4)),
    ]
    assert {each.method for each in api.asked} == {"POST"}
    assert {each.headers["content-type"] for each in api.asked} == {"application/json"}


@pytest.mark.parametrize(
    ("options", "bodies"),
    [
        ({"body": "lines"}, [b'{"id":1,"name":"n1"}\n{"id":2,"name":"n2"}\n']),
        ({"body": "object"}, [b'{"id":1,"name":"n1"}', b'{"id":2,"name":"n2"}']),
        ({"records": "data.items"}, [b'{"data":{"items":[{"id":1,"name":"n1"},{"id":2,"name":"n2"}]}}']),
        ({"records": "rows", "json": {"v": 1}}, [b'{"v":1,"rows":[{"id":1,"name":"n1"},{"id":2,"name":"n2"}]}']),
    ],
)
def test_rows_as_the_receiver_wants_them(api, sending, options, bodies):
    send(sending(**options), named(1, 2))
    assert [each.body for each in api.asked] == bodies


def test_what_goes_with_a_request(api, sending, monkeypatch):
    monkeypatch.setenv("TOKEN", "t0ken")
    auth = {"type": "bearer", "token": "${secret:TOKEN}"}
    send(sending(method="PUT", params={"v": 1}, headers={"X-A": "b"}, auth=auth, idempotency_header="X-Name"), named(1))
    (asked,) = api.asked
    assert (asked.method, asked.query, asked.headers["x-a"]) == ("PUT", {"v": "1"}, "b")
    assert (asked.headers["authorization"], asked.headers["x-name"]) == ("Bearer t0ken", "job/one/out/0/0-0/0")


def test_a_receiver_that_knows_no_names(api, sending):
    sink = sending(idempotent=False)
    send(sink, named(1))
    assert "idempotency-key" not in api.asked[0].headers
    assert DECLARATION.sink.promises(sink.options) is SinkCapability.AT_LEAST_ONCE


def test_an_epoch_that_is_published_is_not_sent_again(api, sending):
    sink = sending()
    transaction = send(sink, named(1))
    Owner(sink, token=2, schema=SCHEMA).publish(0, transaction)
    assert len(api.asked) == 1


def test_a_crash_before_the_mark_sends_the_same_again(api, sending):
    sink = sending(batch_rows=1)
    api.answer = lambda asked: refused(403) if len(api.asked) == 3 else {}
    owner = Owner(sink, schema=SCHEMA)
    transaction = owner.prepare(0, named(1, 2, 3, 4))
    with pytest.raises(StepFailed):
        owner.publish(0, transaction)
    Owner(sink, token=2, schema=SCHEMA).publish(0, transaction)
    sent = [(each.headers["idempotency-key"], each.body) for each in api.asked]
    assert sent[3:6] == sent[:3]
    assert len(sent) == 7


def test_answers_mean_what_they_mean_to_a_source(api, sending):
    ways = [503, 429, 401]
    api.answer = lambda asked: refused(ways.pop(0), headers=(("Retry-After", "0"),)) if ways[:-1] else {}
    send(sending(rate={"backoff": 0.01}), named(1))
    assert len(api.asked) == 3
    api.asked.clear()
    api.answer = lambda asked: refused(409)
    send(sending(on_status=[{"status": 409, "action": "ignore"}]), named(1), epoch=1)
    assert len(api.asked) == 1


def test_a_refusal_names_the_step_and_what_was_said(api, sending):
    api.answer = lambda asked: refused(400, error="bad row")
    with pytest.raises(StepFailed) as failed:
        send(sending(), named(1))
    assert (failed.value.code, failed.value.step) == ("HTTP-010", "out")
    assert "bad row" in failed.value.found


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
@pytest.mark.parametrize("status", [301, 302])
def test_rows_are_not_lost_on_the_way_to_another_address(api, sending, status, method):
    """Such a redirect turns sending into a question, which the other address would answer with 200."""
    api.answer = lambda asked: Reply(b"", status, (("Location", "/rows/"),)) if asked.path == "/rows" else {}
    with pytest.raises(StepFailed) as failed:
        send(sending(method=method), named(1))
    assert (failed.value.code, failed.value.step) == ("HTTP-010", "out")
    assert failed.value.found.endswith("leads to /rows/")
    assert len(api.asked) == 1


def test_rows_go_where_a_redirect_keeps_them(api, sending):
    with serving(lambda asked: {}) as other:
        target = f"{other.url}/there"
        api.answer = lambda asked: Reply(b"", 308, (("Location", target),))
        send(sending(allowed_hosts=[f"127.0.0.1:{other.port}"], headers={"X-Mine": "1"}), named(1))
        (asked,) = other.asked
    assert (asked.method, asked.json) == ("POST", named(1))
    assert (asked.headers["idempotency-key"], asked.headers["content-type"]) == (
        "job/one/out/0/0-0/0",
        "application/json",
    )
    assert "x-mine" not in asked.headers


def test_a_receiver_that_is_away_is_an_external_failure(api, sending):
    sink = sending(rate={"attempts": 2, "backoff": 0.01})
    owner = Owner(sink, schema=SCHEMA)
    transaction = owner.prepare(0, named(1))
    with api.away(), pytest.raises(ExternalFailure) as failed:
        owner.publish(0, transaction)
    assert failed.value.code == "HTTP-011"
    owner.publish(0, transaction)
    assert len(api.asked) == 1


def test_several_batches_at_once(api, sending):
    together, arrived = threading.Event(), []

    def answer(asked):
        arrived.append(asked)
        if len(arrived) == 3:
            together.set()
        return Reply({}, held=together)

    api.answer = answer
    send(sending(batch_rows=1, rate={"concurrency": 3}), named(*range(7)))
    assert sorted(each.json[0]["id"] for each in api.asked) == list(range(7))


def test_a_run_that_lost_its_lease_stops_sending(api, sending):
    def beat():
        if len(api.asked) >= 2:
            raise Fenced("lost")

    with pytest.raises(Fenced):
        send(sending(batch_rows=1, heartbeat=beat), named(*range(9)))
    assert len(api.asked) < 9


def test_a_wait_ends_when_the_lease_is_lost(api, sending):
    beats = iter([None] * 3)

    def beat():
        if next(beats, "lost") == "lost":
            raise Fenced("lost")

    api.answer = lambda asked: refused(429, headers=(("Retry-After", "500"),))
    with pytest.raises(Fenced):
        send(sending(heartbeat=beat), named(1))


def test_values_are_written_as_json_knows_them(api, tmp_path):
    sink = Sending(f"{api.url}/rows", tmp_path)
    schema = schema_of("id long, price decimal(10,2), at timestamp, x double")
    owner = Owner(sink, schema=schema)
    owner.run(0, [{"id": 1, "price": decimal.Decimal("1.50"), "at": 0, "x": float("nan")}])
    assert json.loads(api.asked[0].body) == [{"id": 1, "price": "1.50", "at": "1970-01-01T00:00:00Z", "x": "NaN"}]
    owner.close()


def test_a_long_name_keeps_its_head_and_stays_its_own():
    key = batch_key("j" * 300)
    assert len(key) == 200
    assert key.startswith("j" * 100)
    assert batch_key("j" * 300) == key != batch_key("j" * 301)
    assert batch_key("ünicode/1").isascii()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"on_status": [{"status": 500, "action": "reset"}]}, "are of sources"),
        ({"body": "lines", "records": "a"}, "go around body='array'"),
        ({"json": {"a": 1}}, "json= needs records="),
        ({"params": {"a": "${slice:b}"}}, "a sink has no slices"),
    ],
)
def test_options_that_do_not_go_together(options, expected):
    with pytest.raises(InvalidStep) as refused_step:
        job = ms.Job("j")
        job.source("in", ms.memory([]), schema="id long").sink("out", ms.http("https://a.example/", **options))
    assert (refused_step.value.code, refused_step.value.step) == ("HTTP-001", "out")
    assert expected in refused_step.value.message


def test_a_job_sends_what_it_computes_once(api, tmp_path):
    job = ms.Job("sums", guarantee="effectively_once")
    totals = job.source("in", ms.memory(rows(0, 40)), schema="id long, name string, amount double")
    totals.filter("id % 2 = 0").sink("out", ms.http(f"{api.url}/rows", allow_private=True))
    job.run(local=True, checkpoint=tmp_path)
    sent = [row["id"] for each in api.asked for row in each.json]
    assert sorted(sent) == list(range(0, 40, 2))


def test_a_job_that_must_be_exact_may_not_use_it(api):
    job = ms.Job("exact")
    job.source("in", ms.memory([]), schema="id long").sink("out", ms.http(f"{api.url}/rows", allow_private=True))
    with pytest.raises(InvalidPlan, match="IDEMPOTENT"):
        job.run(local=True)
