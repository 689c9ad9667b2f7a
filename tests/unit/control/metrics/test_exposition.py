"""What a service shows at `/metrics`: runs as their files do, the fleet from its database, and nothing that is always zero."""

import json

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import insert, select
from tests.unit.control.conftest import reap

import millstream as ms
from millstream.contract.driver_protocol import DriverReport
from millstream.control.act import acting
from millstream.control.dispatcher.starting import StartOptions, start_run
from millstream.control.lifecycle.moves import Cause, move, record
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import checkpoint, execution
from millstream.control.metadata.tables.schedules import schedule_fire
from millstream.control.metrics.catalogue import ALL_METRICS, FLEET_METRICS, SERVER_METRICS
from millstream.control.metrics.exposition import FleetCollector, RunCollector, ServerMetrics, text
from millstream.control.metrics.runs import RunFigures
from millstream.control.nodes.claims import claim
from millstream.control.nodes.registration import Offer, beat, register
from millstream.errors import ExternalFailure
from millstream.inspect.run_facts import epoch_facts, told_epoch
from millstream.jobmaster.metrics.file import MetricsFile
from millstream.jobmaster.metrics.metric import PREFIX

NODE = Offer("n1", "b1", 4, {}, "1")


def scraped(*collectors):
    """Samples by name and labels, as Prometheus would read them."""
    registry = CollectorRegistry()
    for each in collectors:
        registry.register(each)
    return samples(text(registry))


def samples(content):
    found = {}
    for family in text_string_to_metric_families(content.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, "a series stands there twice"
            found[key] = sample.value
    return found


def value(found, name, **labels):
    return found[PREFIX + name, frozenset(labels.items())]


def moved(found):
    """Names of metrics that have a sample other than zero."""
    return {name for name, labels in found if found[name, labels]}


def a_job():
    class Measured:
        def open(self, ctx):
            self.rows, self.depth = ctx.counter("rows"), ctx.gauge("depth")
            self.sizes = ctx.histogram("sizes")

        def __call__(self, row):
            self.rows.add(1)
            self.depth.set(row["n"])
            self.sizes.observe(row["n"])
            return row

    job = ms.Job("orders", rows_per_epoch=4)
    rows = job.source("rows", ms.memory([{"n": n, "at": n * 1000} for n in range(10)]), schema="n long, at long")
    counted = rows.event_time("at", id="time").map(Measured, schema="n long, at long", id="measured")
    counted.key_by("n").aggregate(c=ms.count(), id="c").sink("out", ms.collect("exposition"))
    return job


def test_an_epoch_comes_back_from_json_as_it_was():
    told = []
    a_job().run(local=True, on_epoch=told.append)
    assert len(told) > 2
    assert [told_epoch(json.loads(json.dumps(epoch_facts(each)))) for each in told] == told


def report(kind, seq, body):
    return DriverReport(type=kind, run="r", token=1, seq=seq, at=100.0, body=json.loads(json.dumps(body)))


def test_runs_tell_what_their_file_would(tmp_path):
    file = MetricsFile(tmp_path / "m", job="orders", guarantee="", mode="BATCH", clock=lambda: 100.0)
    first, second, told = RunFigures("orders", 0), RunFigures("orders", 1), []
    first.take(report("graph", 1, {"mode": "BATCH"}))
    assert scraped(RunCollector(lambda: [first, second])) == {}

    def note(summary):
        told.append(report("epoch", 2 + len(told), epoch_facts(summary)))
        first.take(told[-1])
        file.epoch(summary)

    a_job().run(local=True, on_epoch=note)
    first.take(told[-1])
    second.take(told[0])
    found = scraped(RunCollector(lambda: [first, second], lambda: 100.0))
    assert value(found, "rows_in_total", job_name="orders", slot="0") == 10, "told twice, counted once"
    assert value(found, "epochs_total", job_name="orders", slot="1") == 1
    own = {(name, labels - {("slot", "0")}): each for (name, labels), each in found.items() if ("slot", "0") in labels}
    assert own == pytest.approx(samples((tmp_path / "m").read_bytes()))


@pytest.fixture
def busy_fleet(act, clock, job, metadata):
    """A service in which something of every kind has happened; gives its collector."""
    collector = FleetCollector(metadata, clock=lambda: clock.now.timestamp())
    scraped(collector)
    clock.forward(1)
    cause = Cause("test", "ada")
    with act() as a:
        register(a, NODE, alone=False)
        row = a.connection.execute(select(job_definition)).one()
        run = start_run(a, row, StartOptions(), trigger="t1").execution_id
        claim(a, NODE.id, {})
        for kind in ("lease_lost", "fenced"):
            record(a.connection, run, kind, cause, now=a.now, token=1)
    clock.forward(20)
    with act() as a:
        assert reap(a) == 1
        fired = {"job_id": row.id, "cause": "cron", "revision": 1, "time_zone": "UTC", "decided_at": a.now}
        a.connection.execute(insert(schedule_fire).values(**fired, fire_time=a.now, result="FIRED"))
    clock.forward(10)
    with act() as a:
        token = claim(a, NODE.id, {}).token
        move(a.connection, run, Status.INITIALIZING, Status.RUNNING, cause, now=a.now, token=token)
        _epochs(a, clock, run)
    return collector, run


def _epochs(a, clock, run):
    for number in range(3):
        clock.forward(2)
        done = {"checkpoint_type": "CHECKPOINT", "status": "COMPLETED", "token": 2, "create_time": clock.now}
        values = {"execution_id": run, "checkpoint_id": number, "complete_time": clock.now, **done}
        a.connection.execute(insert(checkpoint).values(**values))


def test_the_fleet_is_told_from_the_database(busy_fleet, act, clock):
    collector, run = busy_fleet
    clock.forward(7)
    found = scraped(collector)
    assert value(found, "job_state", job_name="orders", state="RUNNING") == 1
    assert value(found, "job_state", job_name="orders", state="FAILED") == 0
    assert value(found, "job_restarts_total", job_name="orders") == 1
    assert value(found, "runs_reaped_total", job_name="orders") == 1
    assert value(found, "epoch_interval_seconds", job_name="orders") == 2
    last = value(found, "epoch_last_completed_timestamp_seconds", job_name="orders")
    assert last == clock.now.timestamp() - 7
    assert value(found, "slots", node="n1", state="used") == 1
    assert value(found, "slots", node="n1", state="free") == 3
    assert value(found, "node_heartbeat_age_seconds", node="n1") == 43
    with act() as a:
        move(a.connection, run, Status.RUNNING, Status.COMPLETED, Cause("test", "ada"), now=a.now)
    assert scraped(collector) == found, "the database is not asked more often than every few seconds"
    clock.forward(6)
    found = scraped(collector)
    assert value(found, "job_state", job_name="orders", state="COMPLETED") == 1
    assert value(found, "job_last_run_duration_seconds", job_name="orders") == 43
    assert value(found, "job_run_duration_seconds_bucket", job_name="orders", le="60") == 1
    assert (f"{PREFIX}epoch_interval_seconds", frozenset({("job_name", "orders")})) not in found


def test_no_figure_of_the_service_is_always_zero(busy_fleet, act, clock):
    collector, run = busy_fleet
    registry = CollectorRegistry()
    server = ServerMetrics(registry)
    server.request("GET", "/jobs/{job}", 200, 0.2)
    with server.streaming():
        served = samples(text(registry))
    assert value(samples(text(registry)), "sse_clients") == 0
    clock.forward(6)
    names = moved(scraped(collector)) | moved(served)
    with act() as a:
        move(a.connection, run, Status.RUNNING, Status.COMPLETED, Cause("test", "ada"), now=a.now)
        beat(a, NODE, {})
    clock.forward(6)
    names |= moved(scraped(collector))
    wanted = [*FLEET_METRICS, *SERVER_METRICS]
    missing = [each.shown for each in wanted if not names & {each.shown, f"{each.shown}_count"}]
    assert missing == []


def test_a_job_that_is_gone_is_not_told_of(busy_fleet, act, clock):
    collector, _ = busy_fleet
    with act() as a:
        a.connection.execute(job_definition.update().values(deleted_time=a.now))
    clock.forward(6)
    assert not [name for name, labels in scraped(collector) if name.startswith(f"{PREFIX}job_")]


def test_the_page_is_there_without_the_database(metadata, clock, monkeypatch):
    def away(self, connection):
        raise ExternalFailure("the database is away", code="CTL-002", hint="start it")

    monkeypatch.setattr(type(metadata), "now", away)
    assert scraped(FleetCollector(metadata)) == {}


def test_names_follow_the_rules_of_prometheus():
    for metric in ALL_METRICS:
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric
        assert metric.text.endswith("."), metric
        assert "job" not in metric.labels, "Prometheus has a label of that name"
    assert len({metric.name for metric in ALL_METRICS}) == len(ALL_METRICS)


def test_open_runs_of_one_job_are_all_in_their_states(act, clock, job, metadata):
    cause = Cause("test", "ada")
    with acting(metadata) as a:
        row = a.connection.execute(select(job_definition)).one()
        first = start_run(a, row, StartOptions(), trigger="t1").execution_id
        a.connection.execute(execution.update().values(slot_no=1))
        start_run(a, row, StartOptions(), trigger="t2")
        move(a.connection, first, Status.SCHEDULED, Status.INITIALIZING, cause, now=a.now)
    found = scraped(FleetCollector(metadata))
    states = {state for state in Status if value(found, "job_state", job_name="orders", state=state)}
    assert states == {Status.SCHEDULED, Status.INITIALIZING}
