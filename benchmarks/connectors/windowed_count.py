"""Kafka, a count per user and window, Kafka: ours exactly once, Structured Streaming at least once at its sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.connectors.bench import Bench, Ran
from benchmarks.connectors.topics import END, digest, filled, objects
from benchmarks.measure import Line, compared

NAME = "windowed_count"
_RIVAL = "Structured Streaming, Kafka source and sink"


def _ours(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import millstream as ms
    from benchmarks.connectors import our_job

    job, rows = our_job.orders(facts)
    windows = rows.event_time("at", max_delay="10s").key_by("user").window(ms.tumbling("10s"))
    counted = windows.aggregate(n=ms.count(), id="counted")
    counted.sink(
        "out", ms.kafka(facts["out"], servers=facts["servers"], key_fields=["user"], value_fields=counted.schema.names)
    )
    return our_job.measured(job, work)


def _spark(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    from pyspark.sql import functions as f

    from benchmarks.connectors import spark_kafka

    rows = spark_kafka.orders(spark_kafka.session(), facts).withColumn("time", f.timestamp_millis("at"))
    windows = rows.withWatermark("time", "10 seconds").groupBy(f.window("time", "10 seconds"), "user").count()
    start = f.unix_millis("window.start").alias("window_start")
    chosen = windows.select("user", start, f.col("count").alias("n"))
    return spark_kafka.measured(spark_kafka.to_topic(chosen, facts, mode="append"), work)


SIDES = {"ours": _ours, "spark": _spark}


def measure(bench: Bench) -> list[Line]:
    """One line."""
    epoch_rows, (epochs, warm) = bench.rows(400_000), bench.epochs
    topic = filled(bench.broker, epochs * epoch_rows - 1, ended=True)
    sides = {side: _ran(bench, side, topic, epoch_rows).measured for side in SIDES}
    what = "Kafka, count per window, Kafka"
    return [compared(what, sides, "ours", "spark", warm=warm, name=_RIVAL, at_least=1.5)]


def _ran(bench: Bench, side: str, topic: str, epoch_rows: int) -> Ran:
    out = bench.broker.topic(2, name="counts")
    ran = bench.side(NAME, side, servers=bench.broker.servers, topic=topic, out=out, epoch_rows=epoch_rows)
    found = (row for row in objects(bench.broker, out) if row["user"] != END)
    ran.measured.rows, ran.measured.digest = digest((row["user"], _start(row), row["n"]) for row in found)
    return ran


def _start(row: dict[str, Any]) -> int:
    """Ours are texts of time, Structured Streaming's are milliseconds."""
    import datetime as dt

    start = row["window_start"]
    return start if isinstance(start, int) else round(dt.datetime.fromisoformat(start).timestamp() * 1000)
