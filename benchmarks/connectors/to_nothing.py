"""Kafka to nothing: rows a second of CPU of our workers, against a loop over a bare consumer that decodes the same."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

from benchmarks.connectors.bench import Bench, Ran
from benchmarks.connectors.topics import PARTITIONS, filled
from benchmarks.measure import Line

NAME = "to_nothing"
_AT_ONCE = 20_000


def _ours(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import millstream as ms
    from benchmarks.connectors import our_job

    job, rows = our_job.orders(facts)
    # No row passes: what is left is reading them.
    rows.filter("id < -1").sink("out", ms.files(work / "output"))
    return our_job.measured(job, work)


def _loop(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """One consumer, one struct for each message, one batch of columns for each call."""
    import msgspec
    import numpy as np
    import pyarrow as pa
    from confluent_kafka import Consumer, TopicPartition

    kinds = {"id": int, "user": str, "amount": float, "at": int, "city": str}
    types = {"id": pa.int64(), "user": pa.string(), "amount": pa.float64(), "at": pa.int64(), "city": pa.string()}
    decode = msgspec.json.Decoder(msgspec.defstruct("Order", list(kinds.items()), gc=False)).decode
    tuning = {"queued.min.messages": 200_000, "fetch.wait.max.ms": 50, "max.partition.fetch.bytes": 8 << 20}
    consumer = Consumer(
        {"bootstrap.servers": facts["servers"], "group.id": "loop", "isolation.level": "read_committed", **tuning}
    )
    consumer.assign([TopicPartition(facts["topic"], number, 0) for number in range(PARTITIONS)])
    began, used, read, kept = time.time(), _cpu(), 0, 0
    while read < facts["rows"]:
        orders = [decode(message.value()) for message in consumer.consume(_AT_ONCE, timeout=1)]
        # Attributes by name: `getattr` would make the loop slower than anybody would write it.
        values = (
            [order.id for order in orders],
            [order.user for order in orders],
            [order.amount for order in orders],
            [order.at for order in orders],
            [order.city for order in orders],
        )
        columns = [pa.array(each, kind) for each, kind in zip(values, types.values(), strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, names=list(kinds))
        read, kept = read + batch.num_rows, kept + np.count_nonzero(batch.column("id").to_numpy() < -1)
    ended = time.time()
    figures = {"cpu": _cpu() - used, "kept": float(kept)}
    consumer.close()
    return {"epochs": [(read, ended - began, ended)], "figures": figures}


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


SIDES = {"ours": _ours, "loop": _loop}


def measure(bench: Bench) -> list[Line]:
    """A line of rows a second of CPU, and one of rows a second for those who wonder."""
    epoch_rows, (epochs, warm) = bench.rows(400_000), bench.epochs
    rows = epochs * epoch_rows
    topic = filled(bench.broker, rows)
    facts = {"servers": bench.broker.servers, "topic": topic, "epoch_rows": epoch_rows, "rows": rows}
    loop, ours = (bench.side(NAME, side, **facts) for side in ("loop", "ours"))
    mine, bare = _per_cpu(ours, warm), loop.measured.epochs[0].rows / loop.measured.figures["cpu"]
    read = sum(epoch.rows for epoch in ours.measured.epochs)
    is_equal = read == loop.measured.epochs[0].rows == rows
    name = "a bare consumer with the same decoding"
    rate, bare_rate = ours.measured.rate(warm), loop.measured.rate(0)
    return [
        Line(
            what="Kafka, nothing: per core of the workers", unit="rows/cpu-s", ours=mine, rival=bare, rival_name=name,
            ratio=mine / bare, at_least=0.8, equal=is_equal,
        ),
        Line(
            what="Kafka, nothing: two tasks against one loop", unit="rows/s", ours=rate, rival=bare_rate,
            rival_name=name, ratio=rate / bare_rate, equal=is_equal,
        ),
    ]  # fmt: skip


def _per_cpu(ran: Ran, warm: int) -> float:
    epochs = ran.measured.epochs
    used = ran.watch.cpu_of_at("workers", epochs[-1].ended) - ran.watch.cpu_of_at("workers", epochs[warm - 1].ended)
    return sum(epoch.rows for epoch in epochs[warm:]) / used
