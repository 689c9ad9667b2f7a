"""Tables that rows are looked up in: read once, or again as time goes on.

A table that is refreshed is a folder of snapshots, each file the whole table. An epoch uses the newest one that was written
by the last full interval of the epoch's clock, or the oldest where none was; a replayed epoch has the same clock and
therefore uses the same file, as long as files are added and neither changed nor removed.
"""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.errors import StepFailed
from millstream.graph.operations.enrich import Lookup
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import Batch
from millstream.runtime.operators.join.keys import equal_keys
from millstream.state.segment import Places, Segment, codes_of, hits

_GROUPS = 1
"""Tables are not partitioned."""


class LookupJoin:
    """Joins batches with a table, keeping the order of their rows."""

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, Lookup)
        self._node, self._operation = node, node.operation
        self._schema = node.outputs[MAIN].arrow
        self._keys = tuple(mine for mine, _ in self._operation.on), tuple(theirs for _, theirs in self._operation.on)
        self._held: tuple[Path | None, Segment] | None = None

    def join(self, batch: Batch, now: int) -> tuple[Batch, int]:
        """The joined rows, and how many rows of the batch the table has nothing for."""
        table = self._table(now)
        asking, partners = self._pairs(batch, table)
        met = np.zeros(batch.num_rows, np.bool_)
        met[asking] = True
        missing = np.flatnonzero(~met)
        if self._operation.how == "left" and len(missing):
            asking, partners = np.concatenate([asking, missing]), np.concatenate([partners, np.full(len(missing), -1)])
        order = np.argsort(asking, kind="stable")
        places = pa.array(partners[order], mask=partners[order] < 0)
        rows = [column.take(pa.array(asking[order])) for column in batch.rows.columns]
        rows += [column.take(places) for column in table.sorted().columns]
        times = None if batch.times is None else batch.times.take(pa.array(asking[order]))
        return Batch(pa.RecordBatch.from_arrays(rows, schema=self._schema), times), len(missing)

    def _pairs(self, batch: Batch, table: Segment) -> tuple[Places, Places]:
        """Places of rows that belong together: in the batch, and in the sorted table."""
        keys = [batch.rows.column(key) for key in self._keys[0]]
        nothing = np.zeros(batch.num_rows, np.int64)
        usable = None
        if any(key.null_count for key in keys):
            usable = np.logical_and.reduce([np.asarray(key.is_valid()) for key in keys])
        asking = Segment.arrived(batch.rows, codes_of(keys, _GROUPS), nothing, nothing, usable=usable)
        ours, theirs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for pairs in hits(table, asking, 0, len(asking), 1 << 20):
            holds = equal_keys(asking.take(pairs.asking), table.take(pairs.places), *self._keys)
            ours.append(asking.origins(pairs.asking[holds]))
            theirs.append(pairs.places[holds])
        return np.concatenate(ours), np.concatenate(theirs)

    def _table(self, now: int) -> Segment:
        path = self._snapshot(now)
        if self._held is None or self._held[0] != path:
            rows = self._read(path)
            nothing = np.zeros(rows.num_rows, np.int64)
            codes = codes_of([rows.column(key) for key in self._keys[1]], _GROUPS)
            came = Segment.arrived(rows, codes, nothing, nothing)
            # Kept in the order of the index, so that batch after batch finds it sorted.
            self._held = path, came.part(slice(None), came.sorted())
        return self._held[1]

    def _snapshot(self, now: int) -> Path | None:
        """The file to read; `None` for rows in the job itself."""
        table, refresh = self._operation.table, self._operation.refresh
        if table.format == "inline":
            return None
        if refresh is None:
            return Path(table.path)
        tick = now // refresh * refresh
        written = sorted((file.stat().st_mtime_ns // 1_000_000, file.name) for file in table_files(Path(table.path)))
        if not written:
            raise self._unreadable(Path(table.path), "there is no file in it")
        chosen = [name for at, name in written if at <= tick][-1:] or [written[0][1]]
        return Path(table.path) / chosen[0]

    def _read(self, path: Path | None) -> pa.RecordBatch:
        table = self._operation.table
        schema = pa.schema([pa.field(field.name, field.type) for field in self._operation.schema])
        try:
            content = decoded(table.content) if path is None else read_table(path, table.format, schema)
            batches = content.select(schema.names).cast(schema).combine_chunks().to_batches()
        except (OSError, pa.ArrowException, KeyError) as problem:
            raise self._unreadable(path, str(problem)) from problem
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)

    def _unreadable(self, path: Path | None, reason: str) -> StepFailed:
        msg = f"the table of a lookup cannot be read: {path or 'rows of the job'}"
        return StepFailed(msg, code="RUN-007", step=self._node.id, found=reason, hint="correct the file or schema=")


def table_files(path: Path) -> list[Path]:
    """The files of a table: the one itself, or those in a folder that are not hidden."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
    return [path]


def read_table(path: Path, kind: str, schema: pa.Schema) -> pa.Table:
    """All rows of a file, or of the files of a folder."""
    return pa.concat_tables([_read_file(file, kind, schema) for file in table_files(path)], promote_options="default")


def _read_file(file: Path, kind: str, schema: pa.Schema) -> pa.Table:
    # Readers of files come from where they are wanted: that of parquet brings all file systems along.
    if kind == "parquet":
        from pyarrow import parquet

        return parquet.read_table(file)
    if kind == "csv":
        from pyarrow import csv

        options = csv.ConvertOptions(column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False)
        return csv.read_csv(file, convert_options=options)

    from pyarrow import json

    parsing = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return json.read_json(file, parse_options=parsing)


def decoded(content: str) -> pa.Table:
    """A table that was written into the job."""
    return pa.ipc.open_stream(base64.b64decode(content)).read_all()
