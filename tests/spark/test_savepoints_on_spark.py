"""Savepoints on Spark: taken while the job runs and at its end, restored at another parallelism, through crashes."""

import shutil
from collections import Counter

import pytest

import millstream as ms
from millstream.api.running.control import RunControl
from millstream.checkpoint.savepoint import read_savepoint
from millstream.checkpoint.savepoint_files import verify_savepoint
from millstream.connectors.collect.sink import clear, collected
from millstream.driver.run import run
from millstream.errors import CheckpointRefused, ExternalFailure
from millstream.local.run import run as run_local
from millstream.plan.deployment import Deployment
from millstream.plan.start import Start

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = [{"k": f"u{i % 7}", "at": 70 * i % 500 + 10 * i, "v": i} for i in range(80)]
SINKS = ("seen", "bins", "totals")


class Seen(ms.ProcessFunction):
    total = ms.ValueState(int)

    def process(self, row, ctx):
        self.total.update((self.total.value() or 0) + row["v"])
        ctx.event_timer(row["at"] + 250)
        yield {"k": row["k"], "x": self.total.value()}

    def on_timer(self, timestamp, ctx):
        yield {"k": ctx.key[0], "x": timestamp * 10_000 + self.total.value()}


def job_of(name, parallelism=2):
    job = ms.Job(name, rows_per_epoch=10, parallelism=parallelism)
    rows = job.source("in", ms.memory(ROWS), schema="k string, at long, v long")
    keyed = rows.event_time("at", max_delay="300ms").key_by("k")
    seen = keyed.process(Seen, schema="k string, x long", id="seen")
    bins = keyed.window(ms.sliding("200ms", "50ms")).aggregate(n=ms.count(), total=ms.sum("v"), id="bins")
    totals = bins.key_by("k").aggregate(n=ms.sum("n"), emit="end", id="totals")
    for step, stream in zip(SINKS, (seen, bins, totals), strict=True):
        stream.sink(f"{step}.out", ms.collect(f"{name}/{step}"))
    return job


def published(name):
    return {step: Counter(map(str, collected(f"{name}/{step}"))) for step in SINKS}


@pytest.fixture(scope="module")
def straight():
    play("straight", None, engine=run_local)
    return published("straight")


@pytest.fixture(autouse=True)
def emptied(request):
    yield
    for step in SINKS:
        clear(f"{request.node.name}/{step}")


def play(name, checkpoint, asks=None, *, parallelism=2, engine=run, **restore):
    """Run, asking for something when an epoch is published; returns the result and the answers.

    What stands under "planning" is asked for while the third epoch is decided.
    """
    control, pending, seen = RunControl(), [], []

    def listener(epoch):
        seen.append(epoch)
        for wish in (asks or {}).get(len(seen) - 1, []):
            pending.append(control.ask(**wish))

    def clock():
        for wish in (asks or {}).get("planning", []) if len(seen) == 2 and not pending else []:
            pending.append(control.ask(**wish))
        return 0

    place = None if checkpoint is None else str(checkpoint)
    plan = job_of(name, parallelism).compile(Deployment(checkpoint=place, master="local[2]")).deployment
    result = engine(plan, clock=clock, listener=listener, control=control, start=Start(**restore))
    return result, [each.wait(60) for each in pending]


def test_saved_on_the_way_suspended_and_restored_through_crashes(spark, tmp_path, straight, failpoints, request):
    """Epoch 0 of the restored job loads the state: a crash before and one behind its manifest must load it again."""
    name, to = request.node.name, str(tmp_path / "savepoints")
    asks = {
        0: [{"action": "savepoint", "id": "way", "to": to}],
        1: [{"action": "savepoint", "id": "way", "to": to}],
        2: [{"action": "suspend", "id": "end", "to": to}, {"action": "suspend", "id": "end", "to": to}],
    }
    result, answers = play(name, tmp_path / "old", asks)
    assert result.ended == "suspended"
    assert [answer.done for answer in answers] == [True] * 4
    assert len({answer.path for answer in answers}) == 2
    way, end = (read_savepoint(answers[place].path) for place in (0, 2))
    assert way.epoch < end.epoch
    assert end.history == [(end.lineage, end.epoch)]
    assert (end.engine, end.parallelism) == ("spark", 2)
    for answer in answers:
        verify_savepoint(answer.path)
    shutil.rmtree(tmp_path / "old")
    for place in ("staged:1:raise", "durable:1:raise"):
        failpoints(place)
        with pytest.raises(ExternalFailure, match="failpoint"):
            play(name, tmp_path / "new", parallelism=3, savepoint=answers[2].path)
    failpoints("")
    result, _ = play(name, tmp_path / "new", parallelism=3, savepoint=answers[2].path)
    assert result.ended == "finished"
    assert result.resumed_from == 0
    assert published(name) == straight


def test_from_spark_to_local_and_back(spark, tmp_path, straight, request):
    name, to = request.node.name, str(tmp_path)
    first, _ = play(name, tmp_path / "1", {0: [{"action": "suspend", "to": to}]})
    local, _ = play(
        name,
        tmp_path / "2",
        {1: [{"action": "suspend", "to": to}]},
        parallelism=1,
        engine=run_local,
        savepoint=first.savepoint,
    )
    assert [lineage for lineage, _ in read_savepoint(local.savepoint).history][0] == read_savepoint(
        first.savepoint
    ).lineage
    last, _ = play(name, tmp_path / "3", parallelism=3, savepoint=local.savepoint)
    assert last.ended == "finished"
    assert published(name) == straight


def test_a_native_savepoint_ends_where_the_job_ends(spark, tmp_path, straight, request):
    """It is asked for while an epoch is under way: that one belongs to it, or its rows would come twice."""
    name = request.node.name
    wish = {"action": "suspend", "form": "native", "to": str(tmp_path)}
    result, answers = play(name, tmp_path / "old", {"planning": [wish]})
    assert result.ended == "suspended"
    assert read_savepoint(answers[0].path).epoch == result.epochs - 1
    verify_savepoint(answers[0].path)
    shutil.rmtree(tmp_path / "old")
    with pytest.raises(CheckpointRefused, match="a native savepoint is restored by the plan, parallelism and engine"):
        play(name, tmp_path / "new", parallelism=3, savepoint=answers[0].path)
    with pytest.raises(CheckpointRefused, match="a native savepoint is restored by the plan, parallelism and engine"):
        play(name, tmp_path / "new", engine=run_local, savepoint=answers[0].path)
    result, _ = play(name, tmp_path / "new", savepoint=answers[0].path)
    assert result.ended == "finished"
    assert published(name) == straight
