"""A NATS source against a real server: the contract, and the stories of sequences, filters, loss and servers that go away."""

import contextlib
import dataclasses
import datetime as dt
import json

import pytest
from tests.servers.nats import NatsServer
from tests.unit.connectors.sources.source_contract import SourceContract, walked
from tests.unit.connectors.sources.source_under_test import Opened, SourceUnderTest, as_multiset, logged

import millstream as ms
from millstream.connectors.messaging.loop import close_loop
from millstream.connectors.nats.client_options import connect_arguments
from millstream.connectors.nats.links import link_to
from millstream.connectors.nats.spec import DECLARATION
from millstream.connectors.nats.streams import StreamQuestions
from millstream.contract.source import BadRecord, Credit, LostRows
from millstream.errors import ExternalFailure, InvalidStep, MillstreamError, StepFailed
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of

SCHEMA = schema_of("n long, user string")


@pytest.fixture(autouse=True, scope="module")
def nothing_open():
    yield
    close_loop()


def encoded(rows):
    return [json.dumps(row).encode() for row in rows]


def numbered(first, count):
    return [{"n": number, "user": f"u{number % 3}"} for number in range(first, first + count)]


class NatsUnderTest(SourceUnderTest):
    schema = SCHEMA

    def __init__(self, server, folder, *, count=23, servers=None, **options):
        self.server, self.folder = server, folder
        self.stream = server.stream()
        self.is_bounded = "until" in options
        self._rows = []
        self.add(count)
        self.spec = ms.nats(self.stream, servers=servers or server.servers, **{"start": "earliest", **options})

    def rows(self):
        return list(self._rows)

    def add(self, count, subject=None):
        rows = numbered(len(self._rows), count)
        self.server.send(subject or self.stream, encoded(rows))
        self._rows += rows

    def with_options(self, **options):
        self.spec = dataclasses.replace(self.spec, options={**self.spec.options, **options})
        return self


class TestNats(SourceContract):
    @pytest.fixture
    def source(self, nats_server, tmp_path):
        return NatsUnderTest(nats_server, tmp_path)


class TestBoundedNats(SourceContract):
    @pytest.fixture
    def source(self, nats_server, tmp_path):
        return NatsUnderTest(nats_server, tmp_path, until="latest")


class TestFilteredNats(SourceContract):
    """Messages of other subjects stand between those that are read, and behind them: sequences have gaps."""

    @pytest.fixture
    def source(self, nats_server, tmp_path):
        source = NatsUnderTest(nats_server, tmp_path, count=0)
        source.with_options(subjects=[f"{source.stream}.a", f"{source.stream}.b.*"])
        for _ in range(5):
            nats_server.send(f"{source.stream}.other", [b"{}"] * 3)
            source.add(2, f"{source.stream}.a")
            source.add(1, f"{source.stream}.b.c")
        nats_server.send(f"{source.stream}.other", [b"{}"] * 3)
        source.add = lambda count: NatsUnderTest.add(source, count, f"{source.stream}.a")
        return source


@pytest.fixture(scope="module")
def own_server():
    server = NatsServer(proxied=True).start()
    yield server
    close_loop()
    server.stop()


class TestNatsAway:
    """A server of its own, which can be killed and cut off."""

    test_what_is_away = SourceContract.test_what_is_away_is_an_external_failure_in_each_call

    @pytest.fixture
    def source(self, own_server, tmp_path, monkeypatch):
        monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 0.5)
        source = NatsUnderTest(own_server, tmp_path, servers=own_server.proxied_servers)

        @contextlib.contextmanager
        def away():
            own_server.kill()
            yield
            own_server.start()

        source.away = away
        return source

    def test_a_server_that_was_killed_and_came_back_is_read_on(self, source, open_source, monkeypatch):
        monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 30.0)
        opened = open_source()
        path, before = walked(opened, opened.initial(), 10, until=10)
        source.server.restart()
        source.add(5)
        _, rest = walked(opened, path[-1], 10, until=28 - len(before))
        assert as_multiset([*before, *rest]) == as_multiset(source.rows())

    def test_a_connection_that_breaks_while_a_range_is_read_loses_nothing(self, source, open_source, monkeypatch):
        monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 30.0)
        monkeypatch.setattr("millstream.connectors.nats.fetching._WAITING", 500)
        source.add(5_000)
        opened = open_source()
        start = opened.initial()
        end = opened.advance(start, 100_000).position
        reader = opened._reader()
        rows = []
        for split in opened.splits(start, end):
            for part in reader.read(logged(split.body)):
                rows += part.to_pylist()
                source.server.proxy.cut()
        assert rows == source.rows()

    def test_nothing_is_planned_while_it_is_away(self, source, open_source, monkeypatch):
        monkeypatch.setattr("millstream.connectors.messaging.patience.PATIENCE", 30.0)
        opened = open_source()
        start = opened.initial()
        with source.server.proxy.away():
            advance = opened.advance(start, 10)
        assert (advance.position, advance.drained) == (start, ())
        assert advance.not_before > 0
        assert "away" in advance.blocked[source.stream]


def read_parts(opened, start, end):
    reader = opened._reader()
    return [part for split in opened.splits(start, end) for part in reader.read(logged(split.body))]


@pytest.fixture
def source(nats_server, tmp_path):
    return NatsUnderTest(nats_server, tmp_path)


# Beginnings and ends


def test_latest_is_decided_once(source, open_source):
    source.with_options(start="latest")
    opened = open_source()
    start = opened.initial()
    source.add(4)
    assert open_source(token=2).initial() == start
    assert walked(open_source(token=2), start, 10, until=4)[1] == numbered(23, 4)


def test_a_sequence_and_a_time_as_beginning_and_end(nats_server, tmp_path, open_source, source):
    middle = dt.datetime.now(dt.UTC)
    source.add(7)
    source.with_options(start=middle, until=28)
    assert walked(open_source(), open_source().initial(), 10)[1] == numbered(23, 4)
    source.with_options(start=3, until=middle)
    (tmp_path / "other").mkdir()
    other = Opened(source, folder=tmp_path / "other")
    assert walked(other, other.initial(), 100)[1] == numbered(2, 21)


def test_a_time_behind_the_last_message_is_the_end(source, open_source):
    source.with_options(start=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    assert open_source().initial()["at"] == 24


def test_an_empty_stream_begins_with_its_first_message(nats_server, tmp_path, open_source, source):
    empty = NatsUnderTest(nats_server, tmp_path / "empty", count=0)
    opened = Opened(empty)
    start = opened.initial()
    assert opened.advance(start, 5).drained == (empty.stream,)
    empty.add(3)
    assert walked(opened, start, 10, until=3)[1] == empty.rows()


def test_another_run_has_an_end_of_its_own(source, open_source):
    source.with_options(until="latest")
    path, _ = walked(open_source(), open_source().initial(), 100)
    source.add(4)
    later = Opened(source, token=2, lineage="L2")
    start = later.next_run(path[-1])
    source.add(1)
    assert walked(later, start, 100)[1] == numbered(23, 4)
    assert Opened(source, token=3, lineage="L2").next_run(path[-1]) == start


# Columns, formats and bad records


def test_metadata_columns(nats_server, tmp_path):
    source = NatsUnderTest(nats_server, tmp_path, count=0)
    nats_server.send(f"{source.stream}.x", [b"a", b"b"], headers={"Trace": "t1"})
    source.schema = schema_of(
        "value string, subject string, seq long, at timestamp, headers array<struct<key: string, value: binary>>"
    )
    kinds = {"subject": "subject", "seq": "sequence", "at": "timestamp", "headers": "headers"}
    source.with_options(format="raw", metadata=kinds)
    opened = Opened(source)
    (rows,) = read_parts(opened, opened.initial(), opened.advance(opened.initial(), 10).position)
    first, second = rows.to_pylist()
    assert [first["value"], second["value"]] == ["a", "b"]
    assert (first["subject"], first["seq"], second["seq"]) == (f"{source.stream}.x", 1, 2)
    assert first["headers"] == [{"key": "Trace", "value": b"t1"}]
    assert abs((dt.datetime.now(dt.UTC) - first["at"]).total_seconds()) < 60


def test_a_bad_message_names_its_sequence_and_the_others_are_read(source, nats_server, open_source):
    nats_server.send(source.stream, [b"{broken", *encoded(numbered(23, 1))])
    opened = open_source()
    parts = read_parts(opened, opened.initial(), opened.advance(opened.initial(), 100).position)
    (bad,) = [part for part in parts if isinstance(part, BadRecord)]
    assert (bad.raw, bad.origin) == (b"{broken", f"{source.stream}@24")
    assert sum(part.num_rows for part in parts if not isinstance(part, BadRecord)) == 24


def test_a_long_range_is_shared_by_tasks(source, open_source):
    source.add(9_000)
    opened = open_source()
    start = opened.initial()
    end = opened.advance(start, 100_000).position
    assert len(opened.splits(start, end)) == 2
    assert opened.read(start, end) == source.rows()


def test_a_credit_in_bytes_limits_an_epoch(source, open_source):
    opened = open_source()
    start = opened.initial()
    assert opened.enumerator.advance(start, Credit(100, bytes=1)).position["at"] == 2


# Loss


def test_messages_that_were_deleted_fail_the_job(source, nats_server, open_source):
    opened = open_source()
    start = opened.initial()
    end = opened.advance(start, 20).position
    nats_server.purge(source.stream, seq=11)
    with pytest.raises(StepFailed, match=r"NATS-013.*sequences 1 to 10.*on_data_loss"):
        opened.advance(start, 5)
    with pytest.raises(StepFailed, match=r"NATS-013"):
        opened.read(start, end)


@pytest.mark.parametrize("until", [{}, {"until": "latest"}])
def test_a_start_behind_the_end_is_named(source, open_source, until):
    source.with_options(start=100, **until)
    with pytest.raises(StepFailed, match=r"NATS-013.*start= lies behind the end.*start=100.*is 24.*correct start="):
        open_source().initial()
    source.with_options(start=24, **until)
    assert open_source(token=2).initial()["at"] == 24


def test_a_start_behind_the_end_is_the_end_where_loss_is_accepted(source, open_source):
    source.with_options(start=100, on_data_loss="skip")
    opened = open_source()
    start = opened.initial()
    source.add(2)
    assert opened.read(start, opened.advance(start, 5).position) == numbered(23, 2)


def test_messages_that_were_deleted_are_skipped_and_counted(source, nats_server, open_source):
    source.with_options(on_data_loss="skip")
    opened = open_source()
    start = opened.initial()
    nats_server.purge(source.stream, seq=11)
    assert opened.advance(start, 0).dropped == {}
    advance = opened.advance(start, 5)
    assert (advance.dropped, advance.position["at"]) == ({"data_loss": 10}, 16)
    assert opened.read(start, advance.position) == numbered(10, 5)


def test_messages_deleted_between_plan_and_reading_are_counted(source, nats_server, open_source):
    source.with_options(on_data_loss="skip")
    opened = open_source()
    start = opened.initial()
    end = opened.advance(start, 20).position
    nats_server.purge(source.stream, seq=11)
    lost, rows = read_parts(opened, start, end)
    assert lost == LostRows(10, "data_loss")
    assert rows.to_pylist() == numbered(10, 10)


def test_a_stream_that_was_made_anew_is_another_one(source, nats_server, open_source):
    opened = open_source()
    path, _ = walked(opened, opened.initial(), 100, until=23)
    nats_server.delete(source.stream)
    nats_server.make(source.stream, subjects=[source.stream])
    nats_server.send(source.stream, encoded(numbered(100, 30)))
    with pytest.raises(StepFailed, match=r"NATS-013.*not the one that was read"):
        opened.advance(path[-1], 5)
    with pytest.raises(StepFailed, match=r"NATS-013"):
        opened.read(path[0], path[1])
    source.with_options(on_data_loss="skip")
    later = open_source(token=2)
    anew = later.advance(path[-1], 5).position
    assert later.read(path[-1], anew) == []
    assert walked(later, anew, 100, until=30)[1] == numbered(100, 30)


def test_a_stream_that_forgets_what_was_read_is_refused(nats_server, tmp_path):
    source = NatsUnderTest(nats_server, tmp_path, count=0)
    nats_server.make("queue", subjects=["queue"], retention="workqueue")
    source.with_options(stream="queue")
    with pytest.raises(InvalidStep, match=r"NATS-012.*retention"):
        Opened(source).initial()


def test_a_stream_that_is_missing_is_named(source, open_source):
    source.with_options(stream="nothing")
    with pytest.raises(InvalidStep, match=r"NATS-004.*'nothing'"):
        open_source().initial()


# Options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"servers": "nats://u:p@h:1"}, r"CONN-005.*client="),
        ({"stream": "a.b"}, r"CONN-005.*name of a stream"),
        ({"start": "2024-05-01T00:00:00"}, r"CONN-005.*with its zone"),
        ({"start": -1}, r"CONN-005"),
        ({"until": "earliest"}, r"CONN-005.*an end behind the beginning"),
        ({"client": {"password": "hunter2"}}, r"NATS-003.*named and not written"),
        ({"client": {"reconnect": 1}}, r"NATS-003.*cannot be set"),
        ({"client": {"tls": "yes"}}, r"NATS-003.*another type"),
        ({"metadata": {"n": "sequence", "x": "subject"}}, r"NATS-010.*'x'"),
        ({"metadata": {"user": "sequence"}}, r"NATS-010.*another type"),
        ({"metadata": {"n": "colour"}}, r"CONN-005.*subject"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    job = ms.Job("job")
    with pytest.raises(InvalidStep, match=words) as refused:
        job.source(
            "in",
            ms.nats(**{"stream": "s", "servers": "localhost:1", "start": "earliest", **options}),
            schema=SCHEMA.ddl,
        )
    assert "hunter2" not in str(refused.value)


def test_a_certificate_that_is_not_there_is_named():
    options = {"servers": ["nats://localhost:1"], "client": {"ca_file": "/nowhere"}}
    with pytest.raises(InvalidStep, match=r"NATS-003.*cannot be loaded"):
        connect_arguments(options, step="in")


@pytest.mark.parametrize(("scheme", "client"), [("tls://", {}), ("nats://", {"tls": True}), ("", {"tls": True})])
def test_no_credentials_go_to_a_server_that_does_not_speak_tls(nats_server, scheme, client):
    given = checked_options(
        DECLARATION.source.options,
        {"stream": "s", "servers": f"{scheme}{nats_server.servers}", "start": "latest", "client": client},
        step="in",
        name="nats",
    )
    with pytest.raises(ExternalFailure, match=r"NATS-005.*no TLS"):
        StreamQuestions(link_to(given, step="in"), "s", (), step="in").described()


@pytest.mark.parametrize("client", [{"nkey_seed": "${secret:SEED}"}, {"credentials_file": "/nowhere"}])
def test_keys_that_cannot_be_used_are_refused_by_name(nats_server, monkeypatch, client):
    monkeypatch.setenv("SEED", "SUAM-hidden")
    given = {"servers": [f"nats://{nats_server.servers}"], "client": client}
    with pytest.raises(MillstreamError, match="NATS-00") as refused:
        StreamQuestions(link_to(given, step="in"), "s", (), step="in").described()
    assert "hidden" not in str(refused.value)


def test_credentials_are_named_and_a_wrong_one_is_refused_at_once(tmp_path, monkeypatch):
    server = NatsServer(arguments=["--user", "ada", "--pass", "s3cret"])
    server.credentials = {"user": "ada", "password": "s3cret"}
    server.start()
    try:
        source = NatsUnderTest(server, tmp_path, client={"user": "ada", "password": "${secret:NATS_PASSWORD}"})
        monkeypatch.setenv("NATS_PASSWORD", "s3cret")
        opened = Opened(source)
        assert walked(opened, opened.initial(), 100, until=23)[1] == source.rows()
        monkeypatch.setenv("NATS_PASSWORD", "wr0ng")
        (tmp_path / "other").mkdir()
        with pytest.raises(ExternalFailure, match="NATS-005") as refused:
            Opened(source, folder=tmp_path / "other").initial()
        assert "wr0ng" not in str(refused.value)
    finally:
        close_loop()
        server.stop()
