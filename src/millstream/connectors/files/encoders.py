"""Writes rows to one file in each format. A file is complete and durable when `close` returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from millstream.connectors.files.store import sync_file
from millstream.connectors.formats import csv_text, json_text
from millstream.errors import InvalidStep
from millstream.model.connector import Options

_PACKED = {"gzip": ".gz", "zstd": ".zst"}
COMPRESSIONS = {
    "parquet": ("none", "snappy", "gzip", "zstd", "lz4"),
    "arrow": ("none", "zstd", "lz4"),
    "json": ("none", *_PACKED),
    "csv": ("none", *_PACKED),
}


class Encoder(Protocol):
    """An open data file."""

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        ...

    def tell(self) -> int:
        """Bytes written so far."""
        ...

    def close(self) -> None:
        """Finish the file and make its content durable."""
        ...


def compression_of(options: Options) -> str:
    """The compression to use, refused when the format has no such thing."""
    kind = options["format"]
    chosen: str = options["compression"] or ("snappy" if kind == "parquet" else "none")
    if chosen not in COMPRESSIONS[kind]:
        msg = f"format {kind!r} has no compression {chosen!r}"
        raise InvalidStep(msg, code="FILES-030", known=COMPRESSIONS[kind], hint="pass compression= one of the known")
    return chosen


def extension_of(options: Options) -> str:
    """The end of file names, such as `json.gz`."""
    kind: str = options["format"]
    return kind + (_PACKED.get(compression_of(options), "") if kind in {"json", "csv"} else "")


def open_encoder(path: Path, schema: pa.Schema, options: Options) -> Encoder:
    """Create a data file."""
    return _OPEN[options["format"]](path, schema, options)


class _ArrowEncoder:
    """A writer of Arrow's own on top of a local file."""

    def __init__(self, path: Path, open_writer: Callable[[Any], Any], compression: str = "none") -> None:
        self._path = path
        self._file = pa.OSFile(str(path), "wb")
        packed = pa.CompressedOutputStream(self._file, compression) if compression in _PACKED else None
        self._stream = packed or self._file
        self._writer = open_writer(self._stream)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._writer.close()
        self._stream.close()
        self._file.close()
        sync_file(self._path)


def _open_parquet(path: Path, schema: pa.Schema, options: Options) -> Encoder:
    compression = compression_of(options)
    return _ArrowEncoder(path, lambda stream: pq.ParquetWriter(stream, schema, compression=compression))


def _open_arrow(path: Path, schema: pa.Schema, options: Options) -> Encoder:
    compression = compression_of(options)
    written = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    return _ArrowEncoder(path, lambda stream: pa.ipc.new_file(stream, schema, options=written))


def _open_csv(path: Path, schema: pa.Schema, options: Options) -> Encoder:
    written = pa.csv.WriteOptions(include_header=options["header"], delimiter=options["delimiter"], batch_size=65_536)
    return _ArrowEncoder(path, lambda stream: _CsvWriter(stream, schema, written), compression_of(options))


def _open_json(path: Path, schema: pa.Schema, options: Options) -> Encoder:
    return _ArrowEncoder(path, _JsonWriter, compression_of(options))


class _CsvWriter:
    """Csv whose binary cells are base64 text."""

    def __init__(self, stream: Any, schema: pa.Schema, options: Any) -> None:
        self._writer = pa.csv.CSVWriter(stream, csv_text.written_schema(schema), write_options=options)

    def write_table(self, table: pa.Table) -> None:
        self._writer.write_table(csv_text.written(table))

    def close(self) -> None:
        self._writer.close()


class _JsonWriter:
    """Json lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write_table(self, table: pa.Table) -> None:
        self._stream.write(json_text.lines(table))

    def close(self) -> None:
        """The stream is closed by the file."""


_OPEN = {"parquet": _open_parquet, "arrow": _open_arrow, "csv": _open_csv, "json": _open_json}
