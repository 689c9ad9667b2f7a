"""Changes of a PostgreSQL table, read through a replication slot into files: changes a second."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.connectors.bench import Bench, Ran
from benchmarks.measure import Line

NAME = "changes"
_TARGET = 100_000
_SLOT = "bench"


def _ours(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import threading

    import millstream as ms
    from benchmarks.connectors.our_job import MASTER
    from millstream.api.running.control import RunControl
    from millstream.api.running.result import EpochSummary
    from millstream.connectors.postgres_cdc.spec import postgres_cdc
    from millstream.driver.run import run
    from millstream.plan.deployment import Deployment

    job = ms.Job("bench", parallelism=2, epoch_interval=0, rows_per_epoch=facts["epoch_rows"])
    source = postgres_cdc(facts["url"], table="stock", keys=["id"], slot=_SLOT, start="now", create=False)
    rows = job.source("changes", source, schema="id long, name string, n long, op string")
    rows.sink("out", ms.files(work / "output"))
    epochs: list[tuple[int, float, float]] = []
    control, read = RunControl(), 0

    def note(epoch: EpochSummary) -> None:
        nonlocal read
        read += epoch.rows_in
        if epoch.rows_in:
            epochs.append((epoch.rows_in, epoch.seconds, time.time()))
        (work / "ready").touch()
        if read >= facts["changes"]:
            threading.Thread(target=control.ask, args=("drain",), daemon=True).start()

    deployment = job.compile(Deployment(master=MASTER, checkpoint=str(work / "checkpoint"))).deployment
    run(deployment, control=control, listener=note)
    return {"epochs": epochs}


SIDES = {"ours": _ours}


def measure(bench: Bench) -> list[Line]:
    """Against the target alone."""
    rows = bench.rows(500_000)
    server = bench.database
    server.execute("CREATE TABLE stock (id int8 PRIMARY KEY, name text, n int8)")
    server.execute(f"CREATE PUBLICATION {_SLOT} FOR TABLE stock")
    server.execute("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", [_SLOT])
    chunk = max(1, rows // 20)
    for first in range(0, rows, chunk):
        last = min(rows, first + chunk)
        server.execute(f"INSERT INTO stock SELECT n, 'thing ' || n, n FROM generate_series({first}, {last - 1}) AS n")
    for first in range(0, rows, chunk):
        server.execute(f"UPDATE stock SET n = n + 1 WHERE id >= {first} AND id < {first + chunk}")
    ran = bench.side(NAME, "ours", url=server.url, changes=2 * rows, epoch_rows=4 * chunk)
    rate = ran.measured.rate(min(2, len(ran.measured.epochs) - 1))
    what = f"changes of PostgreSQL, {2 * rows:,} of them, to files"
    return [
        Line(what=what, unit="changes/s", ours=rate, ratio=rate / _TARGET, at_least=1.0, rival=float(_TARGET),
             rival_name="the target", equal=_is_whole(ran, rows))
    ]  # fmt: skip


def _is_whole(ran: Ran, rows: int) -> bool:
    import pyarrow.dataset as ds

    files = [str(path) for path in sorted((ran.work / "output").rglob("*.parquet"))]
    found = ds.dataset(files, format="parquet").to_table().to_pandas()
    whole = rows * (rows - 1) // 2
    return len(found) == 2 * rows and int(found["id"].sum()) == 2 * whole and int(found["n"].sum()) == 2 * whole + rows
