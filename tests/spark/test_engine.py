"""What only Spark can show: shuffles, wake-ups by the clock, state backends, order."""

import threading
from collections import Counter

import pytest

import millstream as ms
from millstream.api.running.control import RunControl
from millstream.connectors.collect.sink import clear, collected
from millstream.driver.run import run
from millstream.plan.deployment import Deployment
from millstream.spark.query.compile import compile_levels, ship

pytestmark = pytest.mark.spark


class Remind(ms.ProcessFunction):
    """Emits a row a second after it came, by the clock alone."""

    def process(self, row, ctx):
        ctx.processing_timer(ctx.now + 1000)

    def on_timer(self, timestamp, ctx):
        yield {"name": ctx.key[0], "late_by": ctx.now - timestamp}


def test_a_timer_wakes_a_quiet_job_and_nothing_runs_without_cause(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"name": "ada"}\n')
    clear("reminders")
    job = ms.Job("reminders", epoch_interval="100ms")
    rows = job.source("rows", ms.files(str(tmp_path / "in"), format="json", watch=True), schema="name string")
    rows.key_by("name").process(Remind, schema="name string, late_by long", id="remind").sink(
        "out", ms.collect("reminders")
    )
    seen, control = [], RunControl()

    def on_epoch(epoch):
        seen.append(epoch)
        if collected("reminders"):
            threading.Timer(2, control.ask, ["drain"]).start()

    run(job.compile(Deployment(master="local[2]")).deployment, listener=on_epoch, control=control)
    assert [row["name"] for row in collected("reminders")] == ["ada"]
    assert [(epoch.rows_in, epoch.rows_out, epoch.terminal) for epoch in seen] == [
        (1, 0, False),
        (0, 1, False),
        (0, 0, True),
    ]


def test_a_job_that_finds_nothing_to_read_waits_for_it(spark, tmp_path):
    """Spark runs its first batch in any case: an epoch without rows."""
    (tmp_path / "in").mkdir()
    clear("waiting")
    job = ms.Job("waiting", epoch_interval="100ms")
    rows = job.source("rows", ms.files(str(tmp_path / "in"), format="json", watch=True), schema="name string")
    rows.key_by("name").aggregate(n=ms.count(), id="n").sink("out", ms.collect("waiting"))
    seen, control = [], RunControl()

    def on_epoch(epoch):
        seen.append((epoch.epoch, epoch.rows_in))
        if epoch.rows_in:
            control.ask("drain")
        elif not epoch.terminal:
            (tmp_path / "in" / "a.json").write_text('{"name": "ada"}\n')

    run(job.compile(Deployment(master="local[2]")).deployment, listener=on_epoch, control=control)
    assert seen == [(0, 0), (1, 1), (2, 0)]
    assert collected("waiting") == [{"name": "ada", "n": 1}]


def chained(name):
    """Three keyed levels; one branch of level 0 joins the last level and passes the two between."""
    job = ms.Job(name, rows_per_epoch=300)
    rows = job.source(
        "rows",
        ms.datagen(rows=1000, seed=7, fields={"id": {"kind": "sequence"}, "v": {"kind": "int", "low": 0, "high": 50}}),
    )
    first = rows.key_by("v").aggregate(n=ms.count(), emit="row", id="first")
    second = first.key_by("n").aggregate(m=ms.count(), emit="row", id="second")
    pairs = second.select("n", "m")
    straight = rows.select(n="id", m="v")
    both = pairs.union(straight, id="both")
    both.key_by("m").aggregate(k=ms.count(), emit="row", id="third").sink("out", ms.collect(name))
    return job


def test_depth_is_the_number_of_shuffles(spark):
    deployment = chained("depth").compile(Deployment(master="local[2]")).deployment
    assert deployment.plan.depth == 3
    levels = compile_levels(spark.newSession(), ship(deployment), depth=deployment.plan.depth, planner="unused")
    assert levels._jdf.queryExecution().analyzed().toString().count("TransformWithState") == 3


@pytest.mark.parametrize("backend", ["rocksdb", "memory"])
def test_both_backends_and_the_local_engine_give_the_same_rows(spark, backend):
    name = f"levels-{backend}"
    clear(name)
    chained(name).run(local=True)
    expected = Counter(map(str, collected(name)))
    clear(name)
    chained(name).run(master="local[2]", state_backend=backend)
    assert Counter(map(str, collected(name))) == expected
    assert sum(expected.values()) == 2000
