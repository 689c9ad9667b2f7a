"""A job whose source is ten times faster than its sink: memory stays flat, epochs keep their target, the sink is named."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.connectors.bench import Bench
from benchmarks.connectors.steady_load import CHUNKS_A_SECOND
from benchmarks.connectors.topics import PARTITIONS, SCHEMA
from benchmarks.measure import Line, environment
from benchmarks.process_tree import Watch

NAME = "overload"
RATE, SLOWER = 20_000, 10
TARGET = 2.0
_WARM = 0.3
"""Of the time: workers start, and the credit finds its size."""


def _ours(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import threading

    import millstream as ms
    from benchmarks.connectors.our_job import MASTER
    from millstream.api.running.control import RunControl
    from millstream.api.running.result import EpochSummary
    from millstream.driver.run import run
    from millstream.plan.deployment import Deployment

    taken = Counter[str]()

    def slowly(batch: Any, _: Any) -> None:
        time.sleep(batch.num_rows / (RATE / SLOWER))
        taken.update(rows=batch.num_rows, total=sum(batch.column("id").to_pylist()))

    job = ms.Job("bench", parallelism=2, epoch_interval=0, guarantee="at_least_once", rows_per_epoch=1_000_000)
    source = ms.kafka(facts["topic"], servers=facts["servers"], start="earliest")
    rows = job.source("orders", source, schema=SCHEMA, flow=ms.FlowControl(target=f"{TARGET:g}s"))
    rows.filter("amount > 0").sink("slow", ms.consumer(slowly))
    notes: list[dict[str, Any]] = []
    control = RunControl()

    def note(epoch: EpochSummary) -> None:
        holder = epoch.load.holder.step if epoch.load.holder else ""
        notes.append(
            {"rows": epoch.rows_in, "seconds": epoch.seconds, "at": time.time(), "lag": epoch.lag, "holder": holder}
        )
        if (work / "stop").exists():
            control.ask("drain")

    threading.Thread(target=_mark_end, args=(work, control), daemon=True).start()
    deployment = job.compile(Deployment(master=MASTER, checkpoint=str(work / "checkpoint"))).deployment
    run(deployment, control=control, listener=note)
    (work / "notes.json").write_text(json.dumps({"epochs": notes, "taken": taken}))
    return {"epochs": [(each["rows"], each["seconds"], each["at"]) for each in notes]}


def _mark_end(work: Path, control: Any) -> None:
    while not (work / "stop").exists():
        time.sleep(0.2)
    control.ask("drain")


SIDES = {"ours": _ours}


def measure(bench: Bench) -> list[Line]:
    """The longest epoch against its target, and the growth of memory."""
    broker = bench.broker
    topic = broker.topic(PARTITIONS, name="orders")
    with bench.running(NAME, "ours", servers=broker.servers, topic=topic) as (process, work):
        watch = _overloaded(broker.servers, topic, process, work, bench.seconds)
        (work / "stop").touch()
        process.wait(180)
    bench.result(process, work, watch)
    return _lines(bench, json.loads((work / "notes.json").read_text()), watch)


def _overloaded(servers: str, topic: str, process: Any, work: Path, seconds: float) -> Watch:
    watch, until = Watch(), time.monotonic() + seconds
    load = [
        sys.executable,
        "-m",
        "benchmarks.connectors.steady_load",
        servers,
        topic,
        "0",
        str(RATE // CHUNKS_A_SECOND),
    ]
    with subprocess.Popen([*load, str(work)], env=environment()) as sender:
        while time.monotonic() < until and process.poll() is None:
            watch.note(process.pid)
            time.sleep(0.25)
        (work / "enough").touch()
        sender.wait(60)
    return watch


def _lines(bench: Bench, notes: dict[str, Any], watch: Watch) -> list[Line]:
    began, ended = watch.times[0], watch.times[-1]
    steady = [each for each in notes["epochs"] if each["rows"] and began + _WARM * (ended - began) < each["at"] < ended]
    longest, holders = max(each["seconds"] for each in steady), Counter(each["holder"] for each in steady)
    sizes = np.array(watch.resident)[int(_WARM * len(watch.resident)) :] / (1 << 20)
    parts = [float(part.max()) for part in np.array_split(sizes, 10)]
    read = sum(each["rows"] for each in notes["epochs"])
    bench.console.print(
        f"overload: {len(steady)} epochs, holders {dict(holders)}, rows waiting at the end {steady[-1]['lag']:,}"
    )
    bench.console.print("  MB over time: " + ", ".join(f"{size:.0f}" for size in parts))
    is_whole = notes["taken"].get("rows") == read
    named = holders["slow"] / max(1, len(steady))
    growth = max(parts[-3:]) / max(parts[:3])
    return [
        Line(what="overload: longest epoch to its target", unit="s", ours=longest, rival=TARGET, rival_name="the target",
             ratio=longest / TARGET, at_most=2.0, equal=is_whole),
        Line(what="overload: memory at the end", unit="MB", ours=max(parts[-3:]), rival=max(parts[:3]),
             rival_name="the beginning", ratio=growth, at_most=1.15),
        Line(what="overload: epochs that name the sink", unit="share", ours=named, ratio=named, at_least=0.9),
    ]  # fmt: skip
