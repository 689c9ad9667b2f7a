"""The copy of a table with which a source begins: made once, kept in the folder of the source until it is read.

A table cannot be asked for what it was, and a replayed epoch must read the same rows. So the rows of one snapshot are written to
files of the checkpoint before the first epoch reads any. Values stay texts: they are decoded in the workers, as those of changes.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.checkpoint.names import stored_part
from millstream.checkpoint.sealed import seal, unseal
from millstream.checkpoint.stores.local import LocalStore
from millstream.connectors.postgres_cdc.positions import SeenBy, lsn_number, lsn_text
from millstream.errors import CheckpointRefused

_RECORD = "copy.json"
_FORMAT = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """A whole copy: its files with their rows, and how it fits the log."""

    oid: int
    lsn: int
    """From there on the slot has every change; some of the first are in the copy already."""
    seen: SeenBy
    taken_at: int
    """When, in microseconds since 1970."""
    files: tuple[tuple[str, int], ...]

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return sum(rows for _, rows in self.files)

    def stretches(self, first: int, end: int) -> list[tuple[str, int, int]]:
        """Which rows of which files are the rows from one number to another."""
        found, before = [], 0
        for name, rows in self.files:
            begin, stop = max(first, before), min(end, before + rows)
            if begin < stop:
                found.append((name, begin - before, stop - before))
            before += rows
        return found


class CopyFolder:
    """Where the copy of a source lies. Each owner writes files of its own; the first whose copy is whole is believed."""

    def __init__(self, log_dir: Path | None, *, token: int) -> None:
        # Without a checkpoint nobody comes back to it.
        self._temporary = tempfile.TemporaryDirectory(prefix="millstream-cdc-") if log_dir is None else None
        self.path = Path(self._temporary.name if self._temporary is not None else log_dir or ".").resolve()
        self._token = token
        self._known: TableCopy | None = None

    def copy(self) -> TableCopy | None:
        """The copy, once it is whole."""
        if self._known is None:
            stored = LocalStore(self.path).read(_RECORD)
            self._known = None if stored is None else _copy_of(unseal(stored, name=_RECORD, format=_FORMAT))
        return self._known

    def write(self, number: int, texts: pa.RecordBatch) -> tuple[str, int]:
        """Write rows to a file of this owner, durably but for its name."""
        name = f"copy-{self._token:06d}-{number:06d}.arrow"
        with (self.path / name).open("wb") as file:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.ipc.new_file(file, texts.schema, options=options) as writer:
                writer.write_batch(texts)
            file.flush()
            os.fsync(file.fileno())
        return name, texts.num_rows

    def begun_without(self, oid: int, lsn: int) -> TableCopy:
        """Without the rows that are there: the copy has none, and shows no change."""
        self.complete(TableCopy(oid=oid, lsn=lsn, seen=SeenBy("", 0), taken_at=0, files=()))
        return self.whole()

    def whole(self) -> TableCopy:
        """The copy that was completed first."""
        copy = self.copy()
        assert copy is not None, "it was completed a moment ago"
        return copy

    def complete(self, copy: TableCopy) -> None:
        """All files are written: from here on every owner finds this copy, unless another was first."""
        content = {
            "oid": copy.oid,
            "lsn": lsn_text(copy.lsn),
            "snapshot": copy.seen.snapshot,
            "until": lsn_text(copy.seen.until),
            "taken_at": copy.taken_at,
            "files": [list(file) for file in copy.files],
        }
        # The directory is synced with it, and with that the names of the files.
        LocalStore(self.path).create(_RECORD, seal(content, format=_FORMAT))

    def remove_files(self) -> None:
        """The copy is read and published: its rows are not needed any more."""
        for path in self.path.glob("copy-*.arrow"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Without a checkpoint the copy goes with the run."""
        if self._temporary is not None:
            self._temporary.cleanup()


def read_texts(path: str, first: int, end: int, *, step: str) -> pa.RecordBatch:
    """Rows of a file of a copy."""
    try:
        with pa.memory_map(path) as file:
            return pa.ipc.open_file(file).get_batch(0).slice(first, end - first)
    except (OSError, pa.ArrowInvalid) as problem:
        msg = "a file with rows of the table is not where the plan says"
        hint = "the folder of the checkpoint must be whole, and in the same place for the driver and all workers"
        raise CheckpointRefused(msg, code="CDC-013", step=step, found=str(problem), hint=hint) from None


def _copy_of(content: Any) -> TableCopy:
    files: Sequence[Any] = content["files"]
    return TableCopy(
        oid=content["oid"],
        lsn=lsn_number(content["lsn"]),
        seen=SeenBy(content["snapshot"], lsn_number(content["until"])),
        taken_at=content["taken_at"],
        files=tuple((stored_part(name, of="the copy of a table"), rows) for name, rows in files),
    )
