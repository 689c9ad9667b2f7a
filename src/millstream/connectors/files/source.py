"""The `files` source: the enumerator logs files once and deals out units; the reader turns a unit into batches."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from millstream.connectors.files.columns import checked_nulls, fitted, partition_of
from millstream.connectors.files.discovery import Discovery
from millstream.connectors.files.discovery_log import DiscoveryLog, FoundFile, Unit
from millstream.connectors.files.store import FileStamp, check_unchanged, joined, open_store, unreadable
from millstream.connectors.files.text import csv_parts, json_parts, message_parts
from millstream.connectors.formats.decode import decoder
from millstream.contract.source import Advance, BadRecord, Position, SourceContext, Split
from millstream.errors import CheckpointRefused, InvalidStep
from millstream.model.connector import Options
from millstream.model.schema import Schema

_BATCH = 131_072


class FilesEnumerator:
    """Deals out units of logged files in order; a position is the number of units dealt."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._store, self._root = open_store(options["path"])
        self._watch: bool = options["watch"]
        self._step, self._lineage = context.step, context.lineage
        self._discovery = Discovery(self._store, self._root, dict(options), step=context.step)
        self._log = DiscoveryLog(context.log_dir, context.token)
        self._units: list[tuple[FoundFile, Unit]] = []
        self._rows = [0]
        """Estimated rows before each unit, and before the end."""
        self._known: set[str] = set()
        self._take(self._log.files)

    def _take(self, files: Sequence[FoundFile]) -> None:
        for file in files:
            for unit in file.units:
                self._units.append((file, unit))
                self._rows.append(self._rows[-1] + unit[2])
        self._known.update(file.stamp.path for file in files)

    def initial(self) -> Position:
        """Before the first unit."""
        return {"unit": 0}

    def next_run(self, position: Position) -> Position:
        """Behind the units that were dealt; files that came since are found by this run."""
        self._log.begin_run(self._lineage)
        return position

    def advance(self, start: Position, credit: int) -> Advance:
        """Take units until their rows use up the credit, at least one; look for new files when they do not."""
        self._check(start)
        wanted = self._rows[start["unit"]] + credit
        if wanted > self._rows[-1] and not self._log.is_complete:
            self._discover()
        end = min(bisect.bisect_left(self._rows, wanted, lo=start["unit"]), len(self._units))
        return Advance(
            position={"unit": end},
            finished=self._log.is_complete and end == len(self._units),
            lag=self._rows[-1] - self._rows[end],
        )

    def _discover(self) -> None:
        fresh = self._discovery.new_files(self._known)
        self._log.append(fresh, complete=not self._watch)
        self._discovery.taken()
        self._take(fresh)

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """One split per unit, from the log alone."""
        self._check(end)
        return [self._split(file, unit) for file, unit in self._units[start["unit"] : end["unit"]]]

    def _split(self, file: FoundFile, unit: Unit) -> Split:
        first, end, rows = unit
        body = {"root": self._root, **dataclasses.asdict(file.stamp), "format": file.format, "part": [first, end]}
        return Split("0", {**body, "step": self._step}, rows)

    def _check(self, position: Position) -> None:
        if position["unit"] > len(self._units):
            self._take(self._log.adopt())
        if position["unit"] > len(self._units):
            msg = "the discovery log ends before the position to read"
            raise CheckpointRefused(
                msg,
                code="FILES-007",
                step=self._step,
                found=f"unit {position['unit']}",
                known=f"{len(self._units)} units",
                hint="restore the folder of the source inside the checkpoint, with all its logs",
            )

    def acknowledge(self, position: Position) -> None:
        """Nothing waits for it: files stay where they are."""

    def close(self) -> None:
        """Nothing is open."""


class FilesReader:
    """Reads one unit of one file."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._options = options
        self._schema = schema
        self._store, _ = open_store(options["path"])

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """The rows of the unit in file order; a file that changed since it was found, or while it is read, is refused."""
        stamp = FileStamp(split["path"], split["size"], split["mtime_ns"])
        check_unchanged(self._store, split["root"], stamp)
        partition = partition_of(split["path"])
        path = joined(split["root"], split["path"])
        inside = Schema(tuple(field for field in self._schema if field.name not in partition))
        try:
            for part in self._parts(path, split["format"], tuple(split["part"]), inside):
                if isinstance(part, BadRecord):
                    yield dataclasses.replace(part, origin=path)
                elif part.num_rows:
                    yield from checked_nulls(fitted(part, self._schema, partition), self._schema)
        except (OSError, pa.ArrowInvalid, UnicodeDecodeError) as problem:
            raise unreadable(path, split["format"], problem, step=split.get("step")) from problem
        check_unchanged(self._store, split["root"], stamp)

    def _parts(
        self, path: str, kind: str, part: tuple[int, int], inside: Schema
    ) -> Iterator[pa.RecordBatch | BadRecord]:
        match kind:
            case "parquet":
                yield from _parquet_batches(self._store, path, part, inside)
            case "arrow":
                yield from _arrow_batches(self._store, path)
            case "json" | "debezium" if part[1]:
                with self._store.open_input_file(path) as file:
                    yield from self._lines(file, kind, part, inside)
            case "json" | "debezium":
                with self._store.open_input_stream(path) as stream:
                    yield from self._lines(stream, kind, part, inside)
            case _:
                with self._store.open_input_stream(path) as stream:
                    options = self._options
                    yield from csv_parts(stream, inside, header=options["header"], delimiter=options["delimiter"])

    def close(self) -> None:
        """Nothing is open."""

    def _lines(
        self, stream: pa.NativeFile, kind: str, part: tuple[int, int], inside: Schema
    ) -> Iterator[pa.RecordBatch | BadRecord]:
        if kind == "json":
            return json_parts(stream, inside, start=part[0], end=part[1])
        messages = decoder(kind, inside, {**self._options, "ignore_extra": True})
        return message_parts(stream, messages, start=part[0], end=part[1])


def decode_again(options: Options, schema: Schema, record: str | bytes, origin: str) -> pa.RecordBatch | BadRecord:
    """The row of a line that was bad when its file was read."""
    kind = options["format"] or PurePosixPath(origin).suffix.removeprefix(".")
    if kind not in {"json", "jsonl", "ndjson", "debezium"}:
        msg = f"a record of format {kind or 'unknown'!r} says nothing outside its file"
        raise InvalidStep(msg, code="DLQ-004", known="json and debezium", hint="mend the file and read it anew")
    partition = partition_of(origin)
    inside = Schema(tuple(field for field in schema if field.name not in partition))
    line = pa.BufferReader(record.encode() if isinstance(record, str) else record)
    messages = decoder("debezium", inside, {**options, "ignore_extra": True}) if kind == "debezium" else None
    (part,) = json_parts(line, inside) if messages is None else message_parts(line, messages)
    if isinstance(part, BadRecord):
        return part
    return next(checked_nulls(fitted(part, schema, partition), schema))


def _parquet_batches(
    store: fs.FileSystem, path: str, part: tuple[int, int], schema: Schema
) -> Iterator[pa.RecordBatch]:
    with store.open_input_file(path) as source, pq.ParquetFile(source) as file:
        present = set(file.schema_arrow.names)
        # Asking for no column at all loses the number of rows, so one is read and dropped.
        columns = [name for name in schema.names if name in present] or file.schema_arrow.names[:1]
        groups = range(*part) if part[1] else None
        yield from file.iter_batches(batch_size=_BATCH, row_groups=groups, columns=columns)


def _arrow_batches(store: fs.FileSystem, path: str) -> Iterator[pa.RecordBatch]:
    with store.open_input_file(path) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        if is_file:
            reader = pa.ipc.open_file(source)
            batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
        else:
            batches = iter(pa.ipc.open_stream(source))
        for batch in batches:
            for start in range(0, batch.num_rows, _BATCH):
                yield batch.slice(start, _BATCH)
