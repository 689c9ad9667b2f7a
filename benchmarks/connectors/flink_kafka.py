"""The count per user in PyFlink, exactly once. It runs in an environment of its own and imports nothing of ours.

It is SQL, because the job then runs in the JVM alone: a function of the DataStream API would be in Python, and every order would
travel to a Python process and back. A count that changes is an update, which the `kafka` connector refuses and `upsert-kafka`
writes as the newest value of its key; `exactly-once` writes in transactions that are committed when their checkpoint is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

CHECKPOINT_SECONDS = 1
_LOOK_SECONDS = 2.0
_REMEMBERED = 100
_CONFS = {
    "parallelism.default": "2",
    "execution.checkpointing.interval": f"{CHECKPOINT_SECONDS} s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    # A thousand counts fit on the heap, where reading or writing one serializes nothing.
    "state.backend.type": "hashmap",
    "pipeline.object-reuse": "true",
    # A barrier ends a mini-batch, so gathering a checkpoint's worth of rows delays none, and few counts are written.
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": f"{CHECKPOINT_SECONDS} s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    # A job that fails is an error here, not a count that comes late.
    "restart-strategy.type": "none",
    # So many of the completed checkpoints are told.
    "web.checkpoints.history": str(_REMEMBERED),
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
}
_ORDERS = """CREATE TABLE orders (id BIGINT, `user` STRING, amount DOUBLE, `at` BIGINT, city STRING) WITH (
    'connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}', 'topic' = '{topic}',
    'scan.startup.mode' = 'earliest-offset', 'scan.topic-partition-discovery.interval' = '0', 'format' = 'json')"""
# A transaction may stay open as long as the broker allows; Flink's own default is longer, and refused.
_COUNTS = """CREATE TABLE counts (`user` STRING, n BIGINT, PRIMARY KEY (`user`) NOT ENFORCED) WITH (
    'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = '{servers}', 'topic' = '{out}',
    'key.format' = 'raw', 'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
    'sink.transactional-id-prefix' = '{out}', 'sink.transaction-naming-strategy' = 'POOLING',
    'properties.transaction.timeout.ms' = '900000')"""
_COUNTING = "INSERT INTO counts SELECT `user`, COUNT(*) AS n FROM orders GROUP BY `user`"


def _pyflink(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    # PyFlink starts programs of its environment by their names; its heap is as large as Spark's.
    programs = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    os.environ |= {"PATH": programs, "JVM_ARGS": "-Xmx1024m", "FLINK_LOG_DIR": str(work)}
    port = _free_port()
    running = _started(work, facts, port)
    job, ended = f"http://127.0.0.1:{port}/jobs/{running.get_job_id()}", running.get_job_execution_result()
    checkpoints: dict[int, tuple[int, float, float]] = {}
    while not (work / "stop").exists():
        time.sleep(_LOOK_SECONDS)
        if ended.done():
            ended.result()  # raises why
        with contextlib.suppress(OSError):  # a job that has just failed does not answer
            checkpoints |= _completed(job)
    running.cancel().result()
    return {"epochs": [checkpoints[number] for number in sorted(checkpoints)]}


def _started(work: Path, facts: dict[str, Any], port: int) -> Any:
    """The job, which runs until it is cancelled."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    jars = ";".join(Path(jar).as_uri() for jar in facts["jars"])
    more = {
        "pipeline.jars": jars,
        "execution.checkpointing.dir": (work / "checkpoint").as_uri(),
        "rest.port": str(port),
    }
    for name, value in {**_CONFS, **more}.items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    for table in (_ORDERS, _COUNTS):
        tables.execute_sql(table.format(**facts))
    return tables.execute_sql(_COUNTING).get_job_client()


def _completed(job: str) -> dict[int, tuple[int, float, float]]:
    """The checkpoints that were completed lately, by number: rows, seconds, end."""
    with urllib.request.urlopen(f"{job}/checkpoints", timeout=10) as answer:
        told = json.load(answer)["history"]
    # How many rows a checkpoint holds, Flink does not tell; there are some, since orders come steadily.
    return {
        each["id"]: (1, each["end_to_end_duration"] / 1000, each["latest_ack_timestamp"] / 1000)
        for each in told
        if each["status"] == "COMPLETED"
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


SIDES = {"pyflink": _pyflink}
