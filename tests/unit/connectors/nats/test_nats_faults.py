"""What becomes of an epoch when replies are lost, the server is killed, marks are gone, or an owner is late."""

import bisect
import json

import pytest
from tests.servers.nats import NatsServer
from tests.unit.connectors.nats.nats_sinks import NatsSinkUnderTest

import millstream as ms
from millstream.connectors.messaging.loop import close_loop
from millstream.connectors.nats import atomic
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced, InvalidPlan, InvalidStep, StepFailed
from millstream.inspect.connectors.trying import try_step
from millstream.testing.sink_under_test import OpenedSink, ids, rows, seen


@pytest.fixture(scope="module")
def server():
    running = NatsServer(proxied=True).start()
    yield running
    close_loop()
    running.stop()


@pytest.fixture(params=[False, True], ids=["named", "atomic"])
def sink(server, tmp_path, request, monkeypatch):
    monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 30.0)
    return NatsSinkUnderTest(server, tmp_path, servers=server.proxied_servers, atomic=request.param)


def test_a_lost_reply_publishes_an_epoch_once(sink, server):
    owner = OpenedSink(sink)
    owner.run(0, rows(0))
    transaction = owner.prepare(1, rows(10))
    server.proxy.lose_reply_to(b'"id":19')
    owner.publish(1, transaction)
    assert server.proxy.lost.is_set()
    assert seen(sink) == rows(0, 20)


def test_a_server_killed_in_between_has_all_rows_once(sink, server):
    owner = OpenedSink(sink)
    owner.run(0, rows(0))
    server.restart()
    owner.run(1, rows(10))
    server.restart()
    owner.publish(1, {"rows": 10, "digest": owner.prepare(1, rows(10), attempt="b")["digest"], "files": []})
    assert seen(sink) == rows(0, 20)


def test_a_server_that_stays_away_is_an_external_failure(sink, server, monkeypatch):
    owner = OpenedSink(sink)
    transaction = owner.prepare(0, rows(0))
    monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 0.3)
    with server.proxy.away(), pytest.raises(ExternalFailure, match="NATS-002"):
        owner.publish(0, transaction)
    owner.publish(0, transaction)
    assert seen(sink) == rows(0)


def test_a_crash_between_publishing_and_the_mark_repeats_nothing_within_the_window(sink, failpoints):
    owner = OpenedSink(sink, token=1)
    transaction = owner.prepare(0, rows(0))
    failpoints("sink_sent:1:raise")
    with pytest.raises(BaseException, match="sink_sent"):
        owner.publish(0, transaction)
    OpenedSink(sink, token=2).publish(0, transaction)
    assert seen(sink) == rows(0)


# Atomic batches alone


@pytest.fixture
def whole(server, tmp_path, monkeypatch):
    monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 30.0)
    return NatsSinkUnderTest(server, tmp_path, atomic=True)


def test_an_owner_that_was_replaced_between_decision_and_batch_writes_nothing(whole, monkeypatch):
    """The successor comes after the late owner has read the mark: the sequence in its batch is no longer the last."""
    late = OpenedSink(whole, token=1)
    transaction = late.prepare(0, rows(0))
    write, met = atomic.AtomicKeeper._write, []

    def interrupted(self, *arguments):
        if not met:
            met.append(None)
            met[0] = OpenedSink(whole, token=2)
        return write(self, *arguments)

    monkeypatch.setattr(atomic.AtomicKeeper, "_write", interrupted)
    with pytest.raises(Fenced):
        late.publish(0, transaction)
    assert seen(whole) == []
    met[0].publish(0, transaction)
    assert seen(whole) == rows(0)


def test_marks_that_are_gone_are_refused(whole, server):
    OpenedSink(whole, token=1).run(0, rows(0))
    server.purge(whole.stream)
    with pytest.raises(CheckpointRefused, match="SINK-005"):
        OpenedSink(whole, token=2)
    server.delete(whole.stream)
    with pytest.raises(CheckpointRefused, match="SINK-005"):
        OpenedSink(whole, token=3)


def test_old_marks_are_removed(whole, server, monkeypatch):
    monkeypatch.setattr(atomic, "_KEPT_MARKS", 5)
    owner = OpenedSink(whole)
    for epoch in range(12):
        owner.run(epoch, rows(epoch))
    assert len(server.read(whole.stream, f"{whole.stream}.marks.>")) <= 5
    assert len(ids(whole)) == 120


def test_a_stream_that_cannot_take_batches_is_refused(whole, server):
    server.make(whole.stream, subjects=[f"{whole.stream}.>"])
    with pytest.raises(InvalidStep, match=r"NATS-023.*allow_atomic"):
        OpenedSink(whole)
    server.delete(whole.stream)
    server.make(whole.stream, subjects=[whole.subject], allow_atomic=True)
    with pytest.raises(InvalidStep, match=r"NATS-023.*marks.>.*subjects of the stream"):
        OpenedSink(whole)


# Options and rows


def test_a_missing_stream_is_created_or_named(server, tmp_path):
    sink = NatsSinkUnderTest(server, tmp_path, create=False)
    with pytest.raises(InvalidStep, match="NATS-004"):
        OpenedSink(sink)
    made = NatsSinkUnderTest(server, tmp_path / "made")
    OpenedSink(made)
    assert server.info(made.stream).config.subjects == [made.subject]


def test_subjects_and_headers_of_rows(server, tmp_path):
    sink = NatsSinkUnderTest(server, tmp_path, subject_field="name", headers={"Amount": "amount"})
    sink.options["publish_to"] = sink.stream
    content = [{**row, "name": f"{sink.stream}.{row['id'] % 2}"} for row in rows(0, 4)]
    OpenedSink(sink).run(0, content)
    found = server.read(sink.stream)
    assert [(each.subject[-1], each.headers["Amount"], each.data) for each in found][:2] == [
        ("0", "0", b'{"id":0}'),
        ("1", "0.25", b'{"id":1}'),
    ]
    with pytest.raises(StepFailed, match=r"NATS-021.*address"):
        OpenedSink(sink).stage(1, [{**rows(9, 1)[0], "name": None}])


@pytest.mark.parametrize("atomic", [False, True], ids=["named", "atomic"])
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a..b", "address"),
        (".a", "address"),
        ("a.", "address"),
        ("a" * 2000, "address"),
        ("elsewhere", "none of the stream's"),
        ("{stream}.marks.{marks}", "one of marks"),
    ],
    ids=["empty part", "dot first", "dot last", "long", "of another stream", "of marks"],
)
def test_a_row_that_no_attempt_could_publish_fails_before_its_epoch_is_durable(server, tmp_path, atomic, name, found):
    """Else the epoch would be published again and again, in vain."""
    sink = NatsSinkUnderTest(server, tmp_path, subject_field="name", atomic=atomic)
    sink.options["publish_to"] = sink.stream
    subject = name.format(stream=sink.stream, marks="job-out")
    owner = OpenedSink(sink)
    if "marks" in name and not atomic:
        owner.prepare(0, [{"id": 1, "name": subject, "amount": 1.0}])  # there are none
        return
    with pytest.raises(StepFailed, match=rf"NATS-021.*{found}"):
        owner.prepare(0, [{"id": 1, "name": subject, "amount": 1.0}])
    owner.run(0, [{"id": 1, "name": f"{sink.stream}.eu", "amount": 1.0}])


def test_a_message_that_is_too_large_fails_before_its_epoch_is_durable(sink):
    owner = OpenedSink(sink)
    with pytest.raises(StepFailed, match=r"NATS-021.*too large.*1048576"):
        owner.prepare(0, [{"id": 1, "name": "x" * (1 << 20), "amount": 1.0}])


@pytest.mark.parametrize("atomic", [False, True], ids=["named", "atomic"])
def test_headers_count_for_the_size_of_a_message(server, tmp_path, atomic):
    """The server ends the connection for one that is too large, so the epoch would be tried for as long as patience lasts."""
    sink = NatsSinkUnderTest(server, tmp_path, headers={"Amount": "amount"}, atomic=atomic)
    owner, limit = OpenedSink(sink), 1 << 20
    with pytest.raises(StepFailed, match=r"NATS-021.*too large.*with its headers.*1048576"):
        owner.prepare(0, [{"id": 1, "name": "x" * (limit - 40), "amount": 1.0}])
    # As large as it may be, the server takes it.
    largest = limit - bisect.bisect(range(300), False, key=lambda less: _is_prepared(owner, "x" * (limit - less)))
    assert limit - 250 < largest < limit - 40
    owner.run(0, [{"id": 1, "name": "x" * largest, "amount": 1.0}])
    assert [len(json.loads(each.data)["name"]) for each in server.read(sink.stream) if b"name" in each.data] == [
        largest
    ]


@pytest.mark.parametrize("atomic", [False, True], ids=["named", "atomic"])
def test_headers_that_no_stream_takes_fail_before_their_epoch_is_durable(server, tmp_path, atomic):
    sink = NatsSinkUnderTest(server, tmp_path, headers={"Name": "name"}, atomic=atomic)
    owner = OpenedSink(sink)
    with pytest.raises(StepFailed, match=r"NATS-021.*headers are too large.*65535"):
        owner.prepare(0, [{"id": 1, "name": "x" * (1 << 16), "amount": 1.0}])
    largest = (1 << 16) - bisect.bisect(
        range(300), False, key=lambda less: _is_prepared(owner, "x" * ((1 << 16) - less))
    )
    owner.run(0, [{"id": 1, "name": "x" * largest, "amount": 1.0}])
    assert largest in [len((each.headers or {}).get("Name", "")) for each in server.read(sink.stream)]


def _is_prepared(owner, name):
    try:
        owner.prepare(0, [{"id": 1, "name": name, "amount": 1.0}])
    except StepFailed:
        return False
    return True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"publish_to": "a.*"}, r"CONN-005.*without spaces and wildcards"),
        ({"subject_field": "nothing"}, r"NATS-020.*'nothing'"),
        ({"subject_field": "id"}, r"NATS-020.*another type"),
        ({"headers": {"Nats-Msg-Id": "name"}}, r"NATS-020.*server's own"),
        ({"headers": {" Nats-Msg-Id": "name"}}, r"NATS-020.*cannot be sent"),
        ({"headers": {"my header": "name"}}, r"NATS-020.*cannot be sent"),
        ({"headers": {"a": "id", "b": "name"}}, r"NATS-020.*no column is left"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    stream = ms.Job("job").source("in", ms.memory([]), schema="id long, name string")
    with pytest.raises(InvalidStep, match=words):
        stream.sink("out", ms.nats("s", servers="localhost:1", **options))


def test_exactly_once_needs_atomic_batches(server):
    job = ms.Job("job")
    job.source("in", ms.memory([]), schema="id long").sink("out", ms.nats("s", servers="localhost:1"))
    with pytest.raises(InvalidPlan, match=r"exactly_once.*nats.*IDEMPOTENT"):
        job.compile()


def test_looking_at_the_two_sides(server):
    stream = server.stream()
    server.send(stream, [b'{"id": 1}', b"{"])
    job = ms.Job("job", guarantee="effectively_once")
    rows_in = job.source(
        "in", ms.nats(stream, servers=server.servers, start="earliest"), schema="id long", on_error="skip"
    )
    rows_in.sink("out", ms.nats(stream, servers=server.servers))
    rows_in.sink("new", ms.nats(f"{stream}x", servers=server.servers))
    shown = try_step(job, "in", limit=5, seconds=1)
    assert ([*shown.rows], len(shown.bad)) == ([{"id": 1}], 1)
    assert "sequences 1 to 2" in shown.found[0]
    assert "taken once" in try_step(job, "out", limit=1, seconds=1).found[1]
    assert "would be created" in try_step(job, "new", limit=1, seconds=1).found[0]
