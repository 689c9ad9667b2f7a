"""Events as Parquet files in the order of their numbers, written once and read by many runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.connectors.nexmark.generator import generator_of
from millstream.connectors.nexmark.spec import DECLARATION, schema_from
from millstream.model.connector import ConnectorSpec, checked_options

EVENTS_PER_FILE = 1_000_000


def event_batches(spec: ConnectorSpec, first: int = 0, end: int | None = None) -> Iterator[pa.RecordBatch]:
    """The batches that a bounded source gives, or those of its events from the `first` up to the `end`-th."""
    options = _options(spec)
    last = options["events"] if end is None else min(end, options["events"])
    start: int = options["first"]
    return generator_of(options).batches(options["kinds"], schema_from(options), start + first, start + last)


def _options(spec: ConnectorSpec) -> dict[str, Any]:
    assert DECLARATION.source is not None, "nexmark is a source"
    return checked_options(DECLARATION.source.options, spec.options, step=None, name=spec.name)


def event_table(spec: ConnectorSpec) -> pa.Table:
    """All events of a bounded source."""
    return pa.Table.from_batches(event_batches(spec), schema=schema_from(_options(spec)).arrow)


def write_parquet(folder: Path, spec: ConnectorSpec, *, events_per_file: int = EVENTS_PER_FILE) -> list[Path]:
    """Write the events of a bounded source to `part-00000.parquet` and so on; files of an earlier call are replaced.

    The name of a file says its place, and a file appears when it is complete. Equal events give equal files.
    """
    options = _options(spec)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*.parquet"):
        stale.unlink()
    paths = []
    for number, first in enumerate(range(0, options["events"], events_per_file)):
        path = folder / f"part-{number:05d}.parquet"
        _write(path, schema_from(options).arrow, event_batches(spec, first, first + events_per_file))
        paths.append(path)
    return paths


def _write(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    import pyarrow.parquet as pq

    # A name with a dot in front is passed over by those who read the folder.
    hidden = path.with_name(f".{path.name}.part")
    with pq.ParquetWriter(hidden, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
    hidden.replace(path)
