"""The files that every side reads: generated once, in the order of time."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from examples.nexmark.data import KINDS, dataset
from examples.nexmark.rivals.setting import FEW_EVENTS, TINY

_FIRST_MTIME = 1_700_000_000
_FAR = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


def prepared(root: Path, events: int, file_events: int) -> dict[str, Path]:
    """A folder of files for each kind, and beside it the row that ends its time."""
    folders = dataset(root, events, events_per_file=file_events)
    dataset(root / TINY, FEW_EVENTS)
    for kind, folder in folders.items():
        for number, path in enumerate(sorted(folder.glob("part-*.parquet"))):
            # Some engines read files by name, others by the time they were changed.
            os.utime(path, (_FIRST_MTIME + number, _FIRST_MTIME + number))
        _write_end(root / f"{kind}-end", folder)
    return folders


def _write_end(target: Path, folder: Path) -> None:
    """One row from a far future: an engine whose watermark follows the rows closes every window behind it."""
    first = pq.ParquetFile(min(folder.glob("part-*.parquet"))).read_row_group(0).slice(0, 1)
    for number, field in enumerate(first.schema):
        if pa.types.is_timestamp(field.type):
            first = first.set_column(number, field, pa.chunked_array([pa.array([_FAR], field.type)]))
    target.mkdir(parents=True, exist_ok=True)
    path = target / "part-end.parquet"
    pq.write_table(first, path)
    later = _FIRST_MTIME + 1_000_000
    os.utime(path, (later, later))


def halves(root: Path) -> Path:
    """The same rows in two files of each kind, every other row in each.

    An engine whose readers take files in no order still sees time go forward evenly: two readers take one file each.
    """
    target = root / "halves"
    done = target / "_complete"
    wanted = "".join((root / kind / "_complete.json").read_text() for kind in KINDS)
    if done.exists() and done.read_text() == wanted:
        return target
    shutil.rmtree(target, ignore_errors=True)
    for kind in KINDS:
        (target / kind).mkdir(parents=True)
        _split(sorted((root / kind).glob("part-*.parquet")), target / kind)
    done.write_text(wanted)
    return target


def _split(files: list[Path], target: Path) -> None:
    schema = pq.read_schema(files[0])
    writers = [pq.ParquetWriter(target / f"part-{half}.parquet", schema, compression="zstd") for half in (0, 1)]
    for path in files:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=131_072):
            is_odd = pc.equal(pc.bit_wise_and(batch["event_id"], 1), 1)
            writers[0].write_batch(batch.filter(pc.invert(is_odd)))
            writers[1].write_batch(batch.filter(is_odd))
    for writer in writers:
        writer.close()
