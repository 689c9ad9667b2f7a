"""Traces of runs as a collector gets them: one per attempt, from the submission to what is published, and never a secret."""

import contextlib
import json
import os
import signal
import socket
import sys
import time

import pytest
from tests.unit.control.test_real_drivers import SmallService, bounded, endless
from tests.unit.control.tracing.collector import Collector, attributes

from millstream.control.dispatcher.stopping import Wish
from millstream.control.plane import ControlPlane, NodeOptions, RunningNode
from millstream.control.tracing.spans import TraceSpan, span_id, trace_id, traceparent
from millstream.control.tracing.traces import NoTraces, Tracing, open_traces
from millstream.errors import InvalidStep

CANARY = "canary-of-a-trace-7711"


class TracedService(SmallService):
    def __init__(self, folder, tracing):
        self.tracing = tracing
        super().__init__(folder)

    def start(self):
        places = (self.folder / name for name in ("node", "checkpoints", "artifacts", "keys.json"))
        options = NodeOptions(*places, tracing=self.tracing)
        self.plane = ControlPlane(self.metadata, RunningNode(self.metadata, options))
        self.plane.start()

    def close(self):
        for path in self.folder.glob("node/runs/*/driver.json"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
        self.plane.stop()
        self.metadata.close()


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def service(tmp_path, collector):
    made = TracedService(tmp_path, Tracing(collector.url, every=3))
    yield made
    made.close()


def spans_of(collector, holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds(found := collector.spans()):
        assert time.monotonic() < end, [span.name for span in found]
        time.sleep(0.05)
    return found


def is_over(spans):
    return any(span.name == "run" for span in spans)


def made(name="run", at=1.0, **changes):
    given = {"trace": 7, "id": 8, "parent": None, "start": at, "end": at + 1, "attributes": {}}
    return TraceSpan(**{"name": name, **given, **changes})


def test_a_run_is_one_trace_from_its_submission_to_what_it_published(service, collector, tmp_path):
    run = service.submit(bounded(tmp_path))
    row = service.until(run, lambda row: row.status == "COMPLETED")
    spans = spans_of(collector, is_over)
    assert {span.trace_id.hex() for span in spans} == {f"{trace_id(run, 1):032x}"}
    named = {span.name: span for span in spans}
    assert set(named) == {"run", "submit", "claim", "start", "epoch", "publish"}
    root = named["run"]
    assert (root.span_id.hex(), root.parent_span_id) == (f"{span_id(run, 1, 'run'):016x}", b"")
    assert {named[name].parent_span_id for name in ("submit", "claim", "start", "epoch")} == {root.span_id}
    epochs = {span.span_id: span for span in spans if span.name == "epoch"}
    told = sorted(attributes(span)["millstream.epoch"] for span in epochs.values())
    assert told[:2] == [0, 3], "one of three"
    assert attributes(max(epochs.values(), key=lambda span: span.end_time_unix_nano))["millstream.terminal"]
    for span in spans:
        around = epochs[span.parent_span_id] if span.name == "publish" else root
        assert around.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= around.end_time_unix_nano + 1_000_000
        assert attributes(span)["millstream.run"] == run
    assert abs(root.start_time_unix_nano / 1e9 - row.start_time.timestamp()) < 0.001
    order = [named[name].end_time_unix_nano for name in ("submit", "claim", "start", "run")]
    assert order == sorted(order)
    log = next(tmp_path.glob("node/runs/*/logs/driver.log")).read_text()
    assert f"trace {traceparent(run, 1)}" in log, "the driver knows its trace"


def test_an_attempt_whose_driver_was_killed_ends_and_the_next_is_a_trace_of_its_own(service, collector, tmp_path):
    run = service.submit(endless(tmp_path))
    service.until(run, lambda row: row.status == "RUNNING" and row.processed_records > 0)
    os.kill(service.driver(run), signal.SIGKILL)
    service.until(run, lambda row: row.status == "RUNNING" and row.attempt == 2)
    assert service.ask(run, Wish("drain")).status == "done"
    spans = spans_of(collector, lambda spans: sum(span.name == "run" for span in spans) == 2)
    roots = {attributes(span)["millstream.attempt"]: span for span in spans if span.name == "run"}
    assert {n: int(root.trace_id.hex(), 16) for n, root in roots.items()} == {n: trace_id(run, n) for n in (1, 2)}
    assert [(roots[n].status.code, roots[n].status.message) for n in (1, 2)] == [(2, "CTL-052"), (0, "")]
    second = {span.name for span in spans if span.trace_id == roots[2].trace_id}
    assert {"claim", "start"} <= second
    assert "submit" not in second, "it was submitted once"


def test_of_an_error_the_code_is_told_and_not_the_text(service, collector, tmp_path):
    source = {"files": {"path": str(tmp_path / CANARY), "format": "json"}}
    steps = [{"source": "s", "from": source, "schema": "a long"}, bounded(tmp_path)["steps"][-1]]
    (tmp_path / CANARY).mkdir()
    (tmp_path / CANARY / "a.json").write_text("{broken\n")
    run = service.submit({"job": "failing", "steps": steps})
    row = service.until(run, lambda row: row.status == "DEAD")
    (root,) = [span for span in spans_of(collector, is_over) if span.name == "run"]
    assert (root.status.code, root.status.message) == (2, row.error_code)
    assert CANARY in row.error_message
    assert not [body for body in collector.bodies if CANARY.encode() in body]


def test_what_a_run_is_given_is_in_no_span(service, collector, tmp_path):
    document = bounded(tmp_path)
    document["params"] = {"word": {"type": "string", "default": CANARY}}
    run = service.submit(document, confs={"spark.millstream.password": CANARY})
    service.until(run, lambda row: row.status == "COMPLETED")
    spans_of(collector, is_over)
    assert CANARY.encode() not in b"".join(collector.bodies)
    keys = {key for span in collector.spans() for key in attributes(span)}
    assert keys == {f"millstream.{name}" for name in (
        "job", "run", "attempt", "job_version", "epoch", "rows_in", "rows_out", "terminal",
    )}  # fmt: skip


def test_a_collector_that_is_away_costs_spans_and_nothing_else(tmp_path, caplog):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{free.getsockname()[1]}"
        service = TracedService(tmp_path, Tracing(away, every=1))
        try:
            run = service.submit(bounded(tmp_path))
            row = service.until(run, lambda row: row.status == "COMPLETED")
            assert row.processed_records == 500
        finally:
            began = time.monotonic()
            service.close()
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("status", [400, 500])
def test_spans_beyond_the_queue_are_dropped_without_waiting(status):
    collector = Collector(status)
    traces = open_traces(Tracing(collector.url))
    try:
        began = time.monotonic()
        # More than wait, of which each part that is sent in vain takes seconds: nobody waits for those.
        traces.send(made(id=number + 1) for number in range(3000))
        assert time.monotonic() - began < 20
    finally:
        began = time.monotonic()
        traces.close()
        assert time.monotonic() - began < 20
        collector.close()


def test_nobody_asks_for_traces_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    assert NodeOptions(tmp_path, tmp_path, tmp_path, tmp_path).tracing is None
    traces = open_traces(None)
    assert isinstance(traces, NoTraces)
    traces.send(pytest.fail("spans were made") for _ in range(1))
    traces.close()


def test_without_the_extra_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(InvalidStep, match=r"CTL-401.*pip install 'millstream\[otel\]'"):
        open_traces(Tracing("http://localhost:4318"))


def test_an_address_that_is_none_is_refused_without_its_password():
    with pytest.raises(InvalidStep, match="CTL-400") as refused:
        open_traces(Tracing(f"grpc://me:{CANARY}@localhost:4317"))
    assert CANARY not in str(refused.value)
