"""What dlt does for the same work. It runs in an environment of its own and imports nothing of ours."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def _pipeline(work: Path, name: str) -> Any:
    import dlt

    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    target = dlt.destinations.filesystem(bucket_url=(work / "output" / name).as_uri())
    return dlt.pipeline(name, destination=target, dataset_name="rows", pipelines_dir=str(work / "pipelines"))


def _table(work: Path, facts: dict[str, Any], backend: str) -> dict[str, Any]:
    from dlt.sources.sql_database import sql_table

    seconds = 0.0
    for name in (facts["few"], facts["table"]):
        began = time.time()
        rows = sql_table(credentials=facts["url"], table=name, backend=backend, chunk_size=50_000)
        _pipeline(work, name).run(rows, loader_file_format="parquet")
        seconds = time.time() - began
    return {"epochs": [(facts["rows"], seconds, time.time())]}


def _pages(work: Path, facts: dict[str, Any]) -> dict[str, Any]:
    import dlt
    from dlt.sources.helpers.rest_client import RESTClient
    from dlt.sources.helpers.rest_client.paginators import PageNumberPaginator

    def read(path: str) -> Any:
        @dlt.resource(name="items")
        def items() -> Iterator[Any]:
            paginator = PageNumberPaginator(base_page=1, total_path=None)
            yield from RESTClient(facts["url"]).paginate(path, paginator=paginator, data_selector="items")

        return items

    seconds = 0.0
    for name in ("few", "items"):
        began = time.time()
        _pipeline(work, name).run(read(f"/{name}"), loader_file_format="parquet")
        seconds = time.time() - began
    return {"epochs": [(facts["rows"], seconds, time.time())]}


SIDES = {
    "pyarrow": lambda work, facts: _table(work, facts, "pyarrow"),
    "connectorx": lambda work, facts: _table(work, facts, "connectorx"),
    "pages": _pages,
}
