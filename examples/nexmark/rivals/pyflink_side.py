"""The process of PyFlink. It runs in PyFlink's own environment and imports nothing of Millstream."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from examples.nexmark.rivals.pyflink_queries import KINDS, QUERIES, FlinkQuery
from examples.nexmark.rivals.setting import PARALLELISM, TINY, Answer, Setting

_CONFS = {
    "parallelism.default": str(PARALLELISM),
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.incremental": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.managed.size": "512m",
    "python.fn-execution.bundle.size": "10000",
}


def run(setting: Setting) -> Answer:
    """Run a query into nothing and time it, then again to compare; a few events first, by which Flink gets ready."""
    query = QUERIES[setting.query]
    root = Path(setting.data)
    timed_input = root / "halves" if query.is_timed else root
    start_up = [_timed(setting, query, root / TINY)[2] for _ in range(2)][-1]
    began, ended, seconds = _timed(setting, query, timed_input)
    found = _found(setting, query, timed_input)
    notes = [("rows of equal time in another order", query.tied), ("state on the heap", query.on_heap)]
    told = tuple(note for note, holds in notes if holds)
    # A job's own clock also counts its deployment, which the second run over a few events measures.
    return Answer(began=began, ended=ended, start_up=min(start_up, 0.9 * seconds), found=found, notes=told)


def _made(setting: Setting, query: FlinkQuery, data: Path) -> tuple[Any, Any]:
    """The environment over the files of a folder, and the table of the query's result."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    if not query.sql:
        from examples.nexmark.rivals.pyflink_process import counted

        return counted(_confs(setting), _table("bid", KINDS["bid"], data))
    configuration = Configuration()
    for name, value in _confs(setting).items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    for kind, columns in KINDS.items():
        tables.execute_sql(_table(kind, columns, data))
    return tables, tables.sql_query(query.sql)


def _confs(setting: Setting) -> dict[str, str]:
    backend = "hashmap" if QUERIES[setting.query].on_heap else "rocksdb"
    jars = ";".join(f"file://{jar}" for jar in setting.jars)
    checkpoints = setting.checkpoint.as_uri()
    return {
        **_CONFS,
        "state.backend.type": backend,
        "pipeline.jars": jars,
        "execution.checkpointing.dir": checkpoints,
    }


def _table(kind: str, columns: str, data: Path) -> str:
    return f"""CREATE TABLE {kind} ({columns}, WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND)
        WITH ('connector' = 'filesystem', 'path' = '{data / kind}', 'format' = 'parquet',
        'parquet.utc-timezone' = 'true')"""


def _timed(setting: Setting, query: FlinkQuery, data: Path) -> tuple[float, float, float]:
    """When a run into nothing began and ended, and how long the job ran by its own clock."""
    from pyflink.table import TableDescriptor

    _, made = _made(setting, query, data)
    client = made.execute_insert(TableDescriptor.for_connector("blackhole").build()).get_job_client()
    seconds = client.get_job_execution_result().result().get_net_runtime() / 1000
    ended = time.time()
    return ended - seconds, ended, seconds


def _found(setting: Setting, query: FlinkQuery, data: Path) -> tuple[str, ...]:
    """Rows and sums, computed by Flink over the same query."""
    tables, made = _made(setting, query, data)
    tables.create_temporary_view("result", made)
    last: Any = (0,)
    with tables.execute_sql(f"SELECT COUNT(*), {', '.join(query.sums)} FROM `result`").collect() as changes:
        for change in changes:
            last = change
    return tuple(str(value or 0) for value in last)
