"""A table of PostgreSQL to Parquet files, start-up left out: ours on Spark against dlt and against bare ADBC."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.connectors.bench import Bench
from benchmarks.connectors.dlt_install import installed
from benchmarks.connectors.written import digest, line
from benchmarks.measure import Line

NAME = "table_to_parquet"
_WARM_ROWS = 200_000
_SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "customer": pa.int64(),
        "name": pa.string(),
        "amount": pa.float64(),
        "at": pa.timestamp("us", tz="UTC"),
        "city": pa.string(),
    }
)
_FILL = (
    "CREATE TABLE {name} AS SELECT n::int8 AS id, (n::int8 * 7919 % 100000) AS customer, 'customer-' || n % 100000 AS name, "
    "(n % 50000) / 100.0::float8 AS amount, timestamptz '2026-01-01Z' + n * interval '1 second' AS at, "
    "'city-' || n % 97 AS city FROM generate_series(1, {rows}) AS n"
)


def _ours(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import millstream as ms
    from benchmarks.connectors import bounded_job

    def job_over(name: str, folder: Path) -> ms.Job:
        job = ms.Job(f"bench-{name}", rows_per_epoch=facts["epoch_rows"], parallelism=2)
        job.source("rows", ms.jdbc_table(facts["url"], name)).sink("out", ms.files(folder))
        return job

    return bounded_job.measured(work, job_over, (facts["few"], facts["table"]))


def _adbc(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import pyarrow.parquet as pq
    from adbc_driver_postgresql import dbapi

    seconds = 0.0
    with dbapi.connect(facts["url"]) as connection:
        for name in (facts["few"], facts["table"]):
            folder = work / "output" / name
            folder.mkdir(parents=True)
            began = time.time()
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {name}")  # names of ours
                reader = cursor.fetch_record_batch()
                with pq.ParquetWriter(folder / "rows.parquet", reader.schema) as writer:
                    for batch in reader:
                        writer.write_batch(batch)
            seconds = time.time() - began
    return {"epochs": [(facts["rows"], seconds, time.time())]}


SIDES = {"ours": _ours, "adbc": _adbc}


def measure(bench: Bench) -> list[Line]:
    """Against bare ADBC, and against each backend of dlt that is known to be fast."""
    rows, server, python = bench.rows(2_000_000), bench.database, installed()
    # The table before it has several ranges: each worker has read one, and has what it imports, before the clock runs.
    for name, count in (("few", min(rows, _WARM_ROWS)), ("many", rows)):
        server.execute(_FILL.format(name=name, rows=count))
        server.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
        server.execute(f"ANALYZE {name}")
    facts = {"url": server.url, "few": "few", "table": "many", "rows": rows, "epoch_rows": max(1, rows // 2)}
    ran = {side: bench.side(NAME, side, **facts) for side in SIDES}
    ran |= {side: bench.side("dlt_sides", side, python=python, **facts) for side in ("pyarrow", "connectorx")}
    found = {side: digest(each.work / "output" / "many", _SCHEMA) for side, each in ran.items()}
    fastest = max(("pyarrow", "connectorx"), key=lambda side: ran[side].measured.rate(0))
    what = f"PostgreSQL, {rows:,} rows, Parquet"
    return [
        line(what, ran["ours"], ran[side], name=name, at_least=least, equal=found["ours"] == found[side] != (0, ""))
        for side, name, least in ((fastest, f"dlt, {fastest}", 2.0), ("adbc", "bare ADBC and pyarrow", 0.7))
    ]
