"""Every figure of `--metrics` takes a value in a real run, and failures are counted when they happen."""

import dataclasses
import re

import pytest

from millstream.connectors.memory.source import MemoryEnumerator
from millstream.jobmaster.metrics.catalogue import RUN_METRICS
from millstream.jobmaster.metrics.file import MetricsFile

ROWS = """
import millstream as ms

job = ms.Job("rows", rows_per_epoch=2)
rows = job.source("rows", ms.memory([{"k": n % 3, "at": n * 1000} for n in range(10)]), schema="k long, at long")
rows.event_time("at", id="time").key_by("k").aggregate(n=ms.count(), id="n").sink("out", ms.collect("figures"))
"""
WAITING = """
import millstream as ms

job = ms.Job("waiting", rows_per_epoch=1)
together = {"align": "orders", "max_drift": "10s"}
SLOW = [{"id": 1, "at": n * 2_000} for n in range(8)]
FAST = [{"id": 1, "at": n * 6_000} for n in range(8)]
slow = job.source("slow", ms.memory(SLOW), schema="id long, at long").event_time("at", id="slow-time", **together)
fast = job.source("fast", ms.memory(FAST), schema="id long, at long").event_time("at", id="fast-time", **together)
slow.union(fast).key_by("id").aggregate(n=ms.count(), id="n").sink("out", ms.collect("figures-waiting"))
"""
IDLE = """
import millstream as ms

job = ms.Job("idle")
CLOCK = {"__ms_mark": "clock", "advance": 60_000}
ROWS = [{"shard": "n", "at": 1000}, {"shard": "s", "at": 9000}, CLOCK, {"shard": "s", "at": 19000}, CLOCK]
rows = job.source("rows", ms.memory(ROWS, partition_by="shard"), schema="shard string, at long")
rows = rows.event_time("at", id="time", idle_after="5s")
rows.key_by("shard").aggregate(n=ms.count(), id="n").sink("out", ms.collect("figures-idle"))
"""
OWN = """
import millstream as ms


class Measured:
    def open(self, ctx):
        self.rows, self.newest, self.sizes = ctx.counter("rows"), ctx.gauge("newest"), ctx.histogram("sizes")

    def __call__(self, row):
        self.rows.add(1)
        self.newest.set(row["n"])
        self.sizes.observe(row["n"])
        return row


job = ms.Job("own")
rows = job.source("rows", ms.memory([{"n": 5}, {"n": 7}]), schema="n long")
rows.map(Measured, schema="n long", id="measured").sink("out", ms.collect("figures-own"))
"""


DROPPED = """
import millstream as ms

job = ms.Job("dropped", rows_per_epoch=2)
flow = ms.FlowControl("drop", capacity_rows=1)
rows = job.source("rows", ms.memory([{"n": n} for n in range(9)]), schema="n long", flow=flow)
rows.sink("out", ms.collect("figures-dropped"))
"""


@pytest.fixture
def telling(monkeypatch):
    """A source that tells more of what waits there than a script can."""
    advance = MemoryEnumerator.advance_without

    def told(self, start, credit, paused):
        more = {"lags": {"0": 3}, "blocked": {"0": "a transaction"}, "retained": {"0": 4096}}
        return dataclasses.replace(advance(self, start, credit, paused), **more)

    monkeypatch.setattr(MemoryEnumerator, "advance_without", told)


@pytest.fixture
def figures(monkeypatch):
    """The text of the metrics file after each time it was written."""
    found = []
    write = MetricsFile._write

    def noted(self):
        write(self)
        found.append(self._path.read_text())

    monkeypatch.setattr(MetricsFile, "_write", noted)
    return found


def run(cli, tmp_path, text, *options):
    path = tmp_path / "figures_job.py"
    path.write_text(text)
    return cli("run", path, "--local", "-o", "json", "--metrics", tmp_path / "m.prom", *options)


def values(text, name):
    """What samples of a figure say; a histogram has none of its own name."""
    return [float(value) for value in re.findall(rf"^{name}(?:_count)?\{{.*\}} (\S+)$", text, re.MULTILINE)]


def test_failures_are_counted_at_every_epoch_and_at_the_end(cli, tmp_path, figures, failpoints):
    failpoints("durable:2:raise,durable:4:raise")
    options = ("--checkpoint", tmp_path / "c", "--tolerate-failures", "1")
    assert run(cli, tmp_path, ROWS, *options).exit_code == 0
    counted = [values(text, "millstream_failures_total")[0] for text in figures]
    assert counted == sorted(counted)
    assert {0.0, 1.0, 2.0} == set(counted[:-1]), "it grew while the run lived"
    assert counted[-1] == 2


def test_a_run_that_fails_says_so(cli, tmp_path, figures, failpoints):
    failpoints("durable:2:raise,begun:3:raise,begun:4:raise")
    options = ("--checkpoint", tmp_path / "c", "--tolerate-failures", "1")
    assert run(cli, tmp_path, ROWS, *options).exit_code == 4
    assert values(figures[-1], "millstream_failures_total") == [2]
    assert values(figures[-1], "millstream_epochs_total") == [1]


def test_a_function_that_fails_is_a_failure_too(cli, tmp_path, figures):
    broken = ROWS.replace('rows.event_time("at"', 'rows.filter(lambda row: row["none"]).event_time("at"')
    assert run(cli, tmp_path, broken).exit_code == 1
    assert values(figures[-1], "millstream_failures_total") == [1]


ON_SPARK = {"jvm_heap_bytes", "jvm_heap_limit_bytes", "rocksdb_memory_bytes", "shuffle_bytes_total"}
"""They move in tests/spark/test_driver_on_spark.py; a run without a JVM shows none of them, not even as 0."""


def test_no_figure_is_always_zero(cli, tmp_path, figures, failpoints, telling):
    failpoints("durable:2:raise")
    assert run(cli, tmp_path, ROWS, "--checkpoint", tmp_path / "c", "--tolerate-failures", "1").exit_code == 0
    failpoints("")
    for text in (WAITING, IDLE, OWN, DROPPED):
        assert run(cli, tmp_path, text).exit_code == 0
    written = {name for text in figures for name in re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)}
    assert written == {metric.shown for metric in RUN_METRICS if metric.name not in ON_SPARK}
    assert [name for name in sorted(written) if not any(any(values(text, name)) for text in figures)] == []
