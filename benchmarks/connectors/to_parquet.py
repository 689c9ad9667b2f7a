"""Kafka to Parquet files: ours against Structured Streaming's Kafka source and file sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.connectors.bench import Bench
from benchmarks.connectors.topics import filled
from benchmarks.measure import Line, Measured, compared, with_output

NAME = "to_parquet"


def _ours(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import millstream as ms
    from benchmarks.connectors import our_job

    job, rows = our_job.orders(facts)
    rows.sink("out", ms.files(work / "output"))
    return our_job.measured(job, work)


def _spark(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    from benchmarks.connectors import spark_kafka

    rows = spark_kafka.orders(spark_kafka.session(), facts)
    return spark_kafka.measured(rows.writeStream.format("parquet").option("path", str(work / "output")), work)


SIDES = {"ours": _ours, "spark": _spark}


def measure(bench: Bench) -> list[Line]:
    """One line."""
    epoch_rows, (epochs, warm) = bench.rows(400_000), bench.epochs
    topic = filled(bench.broker, epochs * epoch_rows)
    sides: dict[str, Measured] = {}
    for side in SIDES:
        ran = bench.side(NAME, side, servers=bench.broker.servers, topic=topic, epoch_rows=epoch_rows)
        written = with_output([], ran.work / "output")
        ran.measured.rows, ran.measured.digest = written.rows, written.digest
        sides[side] = ran.measured
    name = "Structured Streaming, Kafka source and file sink"
    return [compared("Kafka, Parquet", sides, "ours", "spark", warm=warm, name=name, at_least=2.0)]
