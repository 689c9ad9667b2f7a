"""From a record in Kafka to its count readable under read_committed, at a steady rate, exactly once, epochs back to back."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from tests.servers.kafka import KafkaServer

from benchmarks.connectors import flink_install, steady_load
from benchmarks.connectors.bench import Bench
from benchmarks.connectors.steady_load import CHUNKS_A_SECOND
from benchmarks.connectors.topics import PARTITIONS, SCHEMA, USERS, send
from benchmarks.measure import Epoch, Line, environment
from benchmarks.process_tree import Watch

NAME = "latency"
RATE = 20_000
_WARM = 60.0
_START_SECONDS = 180
_COUNTS = 2
_LIMITS = (("median", 50, 0.6), ("99th percentile", 99, 1.2))


class Seen(NamedTuple):
    """A count that became readable."""

    at: float
    user: int
    count: int


class Visible(NamedTuple):
    """How long orders of a side took to be readable."""

    delays: np.ndarray
    """Seconds from sending to seeing, of every order that was sent after the warm-up."""
    period: float
    """Seconds from one epoch, or checkpoint, to the next."""


def _ours(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import threading

    import millstream as ms
    from benchmarks.connectors.epoch_parts import EpochParts
    from benchmarks.connectors.our_job import MASTER
    from millstream.api.running.control import RunControl
    from millstream.api.running.result import EpochSummary
    from millstream.driver.run import run
    from millstream.plan.deployment import Deployment

    job = ms.Job("bench", parallelism=2, epoch_interval=0)
    source = ms.kafka(facts["topic"], servers=facts["servers"], start="earliest")
    counted = job.source("orders", source, schema=SCHEMA).key_by("user").aggregate(n=ms.count(), id="counted")
    sink = ms.kafka(facts["out"], servers=facts["servers"], key_fields=["user"], value_fields=["user", "n"])
    counted.sink("out", sink)
    epochs: list[tuple[int, float, float]] = []
    parts, control = EpochParts(), RunControl()

    def end() -> None:
        while not (work / "stop").exists():
            time.sleep(0.2)
        control.ask("drain")

    threading.Thread(target=end, daemon=True).start()
    deployment = job.compile(Deployment(master=MASTER, checkpoint=str(work / "checkpoint"))).deployment

    def note(epoch: EpochSummary) -> None:
        epochs.append((epoch.rows_in, epoch.seconds, time.time()))
        parts.note(epoch)

    run(deployment, control=control, listener=note)
    (work / "parts.json").write_text(json.dumps(parts.medians(skip=min(50, len(epochs) // 2))))
    return {"epochs": epochs}


def _spark(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    from pyspark.sql import functions as f

    from benchmarks import rival
    from benchmarks.connectors import spark_kafka

    counts = spark_kafka.orders(spark_kafka.session(), facts).groupBy("user").agg(f.count("*").alias("n"))
    query = spark_kafka.to_topic(counts, facts, mode="update")
    running = query.option("checkpointLocation", str(work / "checkpoint")).start()
    batches: dict[int, Any] = {}
    while not (work / "stop").exists():
        time.sleep(2)
        batches |= {batch["batchId"]: rival.epoch_of(batch) for batch in running.recentProgress}
    running.stop()
    return {"epochs": [batches[number] for number in sorted(batches)]}


SIDES = {"ours": _ours, "spark": _spark}


def measure(bench: Bench) -> list[Line]:
    """Median and 99th percentile of ours, with the rivals' beside them."""
    rate = max(1_000, int(RATE * min(1.0, bench.scale)))
    flink = flink_install.installed()
    ours, spark = (_measured(bench, NAME, side, rate) for side in SIDES)
    lines = [_line(rate, ours, spark, words, percent, limit) for words, percent, limit in _LIMITS]
    if flink.missing:
        bench.console.print(f"latency: PyFlink is left out. {flink.missing}", style="bold red", markup=False)
        return lines
    beside = _measured(bench, "flink_kafka", "pyflink", rate, python=flink.python, jars=flink.jars)
    return [*lines, *(_flink_line(rate, ours, beside, words, percent) for words, percent, _ in _LIMITS)]


def _line(rate: int, ours: Visible, spark: Visible, words: str, percent: int, limit: float) -> Line:
    mine, theirs = (float(np.percentile(side.delays, percent)) for side in (ours, spark))
    # The target is one of seconds: the ratio to it is shown where others show the ratio to a rival.
    return Line(
        what=f"visible latency at {rate:,} rows/s, {words}, limit {limit:g} s", unit="s", ours=mine, rival=theirs,
        rival_name="Structured Streaming", ratio=mine / limit, at_most=1.0, equal=True,
    )  # fmt: skip


def _flink_line(rate: int, ours: Visible, flink: Visible, words: str, percent: int) -> Line:
    mine, theirs = (float(np.percentile(side.delays, percent)) for side in (ours, flink))
    name = f"PyFlink, a checkpoint every {flink.period:.2f} s"
    what = f"visible latency at {rate:,} rows/s, {words}"
    return Line(what=what, unit="s", ours=mine, rival=theirs, rival_name=name, equal=True)


def _measured(bench: Bench, module: str, side: str, rate: int, **more: Any) -> Visible:
    warm = min(_WARM, bench.seconds / 2)
    broker = bench.broker
    topic, out = broker.topic(PARTITIONS, name="orders"), broker.topic(_COUNTS, name="counts")
    # The first order of every user: once they are counted, the side is up.
    send(broker, topic, ((number % PARTITIONS, steady_load.value(number)) for number in range(USERS)))
    watch = Watch()
    facts = {"servers": broker.servers, "topic": topic, "out": out, **more}
    with bench.running(module, side, **facts) as (process, work):
        seen, moments = _observed(broker, topic, out, process, work, rate, warm + bench.seconds, watch)
        (work / "stop").touch()
        process.wait(120)
    ran = bench.result(process, work, watch)
    delays = _delays(seen, moments, rate // CHUNKS_A_SECOND, warm)
    return _told(bench, side, ran.measured.epochs, delays, work, watch)


def _observed(
    broker: KafkaServer, topic: str, out: str, process: Any, work: Path, rate: int, seconds: float, watch: Watch
) -> tuple[list[Seen], np.ndarray]:
    """Send for so long, and read counts until all that was sent is counted."""
    config = {"bootstrap.servers": broker.servers, "group.id": "observer", "isolation.level": "read_committed"}
    consumer = Consumer({**config, "fetch.wait.max.ms": 20, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(out, number, 0) for number in range(_COUNTS)])
    seen: list[Seen] = []
    _read(consumer, seen, lambda: len(seen) >= USERS, process, _START_SECONDS)
    load = [sys.executable, "-m", "benchmarks.connectors.steady_load", broker.servers, topic, str(USERS)]
    began = time.time()
    with subprocess.Popen([*load, str(rate // CHUNKS_A_SECOND), str(work)], env=environment()) as sender:
        _read(consumer, seen, lambda: time.time() > began + seconds / 2, process, seconds + 10)
        watch.note(process.pid)
        _read(consumer, seen, lambda: time.time() > began + seconds, process, seconds + 10)
        watch.note(process.pid)
        (work / "enough").touch()
        _read(consumer, seen, lambda: (work / "moments").exists(), process, 60)
        sender.wait(60)
    moments = np.frombuffer((work / "moments").read_bytes())
    whole = USERS + len(moments) * (rate // CHUNKS_A_SECOND)
    newest: dict[int, int] = {}
    _read(consumer, seen, lambda: _counted(newest, seen) >= whole, process, 120)
    consumer.close()
    return seen, moments


def _counted(newest: dict[int, int], seen: list[Seen]) -> int:
    """All orders that the newest counts hold."""
    newest |= {each.user: each.count for each in seen[-10 * USERS :]}
    return sum(newest.values())


def _read(consumer: Consumer, seen: list[Seen], is_enough: Any, process: Any, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not is_enough():
        if process.poll() is not None or time.monotonic() > until:
            msg = f"the side ended, or nothing came of it in {seconds:.0f} s"
            raise RuntimeError(msg)
        messages = consumer.consume(10_000, timeout=0.005)
        now = time.time()
        for message in messages:
            if message.error() is None:
                row = json.loads(message.value())
                seen.append(Seen(now, int(row["user"].removeprefix("user-")), row["n"]))


def _delays(seen: list[Seen], moments: np.ndarray, chunk: int, warm: float) -> np.ndarray:
    """Of every order, by the first count that holds it. Counts only grow: one that did not would be an error."""
    visible = np.full(USERS + len(moments) * chunk, np.nan)
    held = [0] * USERS
    for at, user, count in seen:
        if count > held[user]:
            visible[np.arange(held[user], count) * USERS + user] = at
            held[user] = count
    delays = visible[USERS:] - np.repeat(moments, chunk)
    if np.isnan(delays).any():
        msg = f"{int(np.isnan(delays).sum())} orders were never counted"
        raise RuntimeError(msg)
    return delays[int(warm * CHUNKS_A_SECOND) * chunk :]


def _told(bench: Bench, side: str, epochs: list[Epoch], delays: np.ndarray, work: Path, watch: Watch) -> Visible:
    began, ended = watch.times
    steady = [epoch for epoch in epochs if epoch.rows and began < epoch.ended < ended]
    p50, p99, worst = np.percentile(delays, (50, 99, 100))
    used = {kind: 1000 * (last - first) / max(1, len(steady)) for kind, (first, last) in watch.cpu_of.items()}
    period = (steady[-1].ended - steady[0].ended) / (len(steady) - 1) if len(steady) > 1 else math.nan
    bench.console.print(
        f"latency {side}: {len(delays):,} records, p50 {p50:.2f} s, p99 {p99:.2f} s, worst {worst:.2f} s; "
        f"an epoch every {period:.3f} s, CPU ms an epoch: " + ", ".join(f"{kind} {ms:.0f}" for kind, ms in used.items())
    )
    if (work / "parts.json").exists():
        parts = json.loads((work / "parts.json").read_text())
        bench.console.print("  median ms: " + ", ".join(f"{part} {ms:.0f}" for part, ms in parts.items()))
    return Visible(delays, period)
