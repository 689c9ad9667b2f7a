"""Pages of an HTTP API to Parquet files, start-up left out: ours on Spark against dlt."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.servers.postgres import free_port

from benchmarks.connectors.bench import Bench
from benchmarks.connectors.dlt_install import installed
from benchmarks.connectors.page_server import FEW, ITEMS
from benchmarks.connectors.written import digest, line
from benchmarks.measure import Line, environment

NAME = "pages_to_parquet"
_SCHEMA = pa.schema(
    {"id": pa.int64(), "name": pa.string(), "price": pa.float64(), "stock": pa.int64(), "city": pa.string()}
)


def _ours(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import millstream as ms
    from benchmarks.connectors import bounded_job

    def job_over(name: str, folder: Path) -> ms.Job:
        job, paginator = ms.Job(f"bench-{name}", parallelism=2), {"type": "page"}
        pages = ms.http(f"{facts['url']}/{name}", records="items", paginator=paginator, allow_private=True)
        rows = job.source("rows", pages, schema="id long, name string, price double, stock long, city string")
        rows.sink("out", ms.files(folder))
        return job

    return bounded_job.measured(work, job_over, ("few", "items"))


SIDES = {"ours": _ours}


def measure(bench: Bench) -> list[Line]:
    """One line."""
    pages, python = bench.rows(2_000, least=FEW), installed()
    with _serving(pages) as url:
        facts = {"url": url, "rows": pages * ITEMS}
        ours = bench.side(NAME, "ours", **facts)
        dlt = bench.side("dlt_sides", "pages", python=python, **facts)
    mine, theirs = (digest(ran.work / "output" / "items", _SCHEMA) for ran in (ours, dlt))
    is_equal = mine == theirs and mine[0] == pages * ITEMS
    what = f"{pages:,} pages of {ITEMS} rows, Parquet"
    return [line(what, ours, dlt, name="dlt", at_least=5.0, equal=is_equal)]


@contextlib.contextmanager
def _serving(pages: int) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.connectors.page_server", str(port), str(pages)]
    with subprocess.Popen(command, env=environment()) as server:
        try:
            _wait_for(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    msg = "the server of pages does not start"
    raise RuntimeError(msg)
