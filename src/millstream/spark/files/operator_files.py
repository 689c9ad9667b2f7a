"""What Spark records about a stateful operator: its partitions, and the absolute paths of its state schemas."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from millstream.checkpoint.names import stays_inside
from millstream.checkpoint.stores.local import sync_directory, write_synced
from millstream.spark.files.state_files import Damage, damage, hidden_checksum

_SCHEMAS = "_stateSchema"
_SCHEMA_START = b"\0\2v"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRecord:
    """One metadata file of an operator; `what` says why it cannot be used."""

    file: Path
    schemas: tuple[Path, ...] = ()
    """The schema files, where they lie in this checkpoint."""
    is_elsewhere: bool = False
    """The record names the files of another folder: the checkpoint was copied or moved."""
    partitions: int | None = None
    what: str | None = None


def operator_ids(folder: Path) -> list[int]:
    """The stateful operators that have a folder; 0 is nearest the sinks."""
    state = folder / "state"
    names = [entry.name for entry in state.iterdir()] if state.is_dir() else []
    return sorted(int(name) for name in names if name.isdigit())


def operator_records(folder: Path, operator: int) -> list[OperatorRecord]:
    """The metadata files of an operator."""
    records = folder / "state" / str(operator) / "_metadata" / "v2"
    files = [entry for entry in records.iterdir() if entry.name.isdigit()] if records.is_dir() else []
    if not files:
        return [OperatorRecord(file=records / "0", what="is missing")]
    return [_record(folder, file) for file in sorted(files, key=lambda file: int(file.name))]


def _record(folder: Path, file: Path) -> OperatorRecord:
    what = damage(file)
    if what is not None:
        return OperatorRecord(file=file, what=what)
    try:
        stores = _parsed(file.read_text())["stateStoreInfo"]
        paths = [path for store in stores for path in store["stateSchemaFilePaths"]]
        partitions = int(stores[0]["numPartitions"])
        schemas = [(path, folder / _inside(path)) for path in paths]
    except (ValueError, KeyError, TypeError, IndexError):
        return OperatorRecord(file=file, what="is not what Spark writes")
    return OperatorRecord(
        file=file,
        schemas=tuple(local for _, local in schemas),
        is_elsewhere=any(path != _absolute(local) for path, local in schemas),
        partitions=partitions,
    )


def schema_damages(record: OperatorRecord) -> list[Damage]:
    """Schema files of a record that cannot be used."""
    examined = [(file, damage(file) or _schema_damage(file.read_bytes())) for file in record.schemas]
    return [Damage(file=file, what=what) for file, what in examined if what is not None]


def _schema_damage(content: bytes) -> str | None:
    # A schema starts with its version and ends with the JSON of the map's key, as `pages` is a map.
    whole = content.startswith(_SCHEMA_START) and content.endswith(b"}")
    return None if whole else "does not hold a state schema"


def relocated(content: str, folder: Path) -> str:
    """A metadata file as it reads in the checkpoint `folder`, wherever it was written."""
    record = _parsed(content)
    for store in record["stateStoreInfo"]:
        store["stateSchemaFilePaths"] = [_absolute(folder / _inside(path)) for path in store["stateSchemaFilePaths"]]
    return content.split("\n", 1)[0] + "\n" + json.dumps(record, separators=(",", ":"))


def relocate(folder: Path) -> list[Path]:
    """Make the operators of a copied or moved checkpoint name its own schema files; returns the files changed."""
    changed = []
    for operator in operator_ids(folder):
        for record in operator_records(folder, operator):
            if record.what is None and record.is_elsewhere:
                content = relocated(record.file.read_text(), folder)
                # The old checksum goes first: without one the file system verifies nothing, with a wrong one it refuses.
                hidden_checksum(record.file).unlink(missing_ok=True)
                fresh = record.file.with_name(f".{record.file.name}.tmp")
                write_synced(fresh, content.encode())
                fresh.replace(record.file)
                sync_directory(record.file.parent)
                changed.append(record.file)
    return changed


def _parsed(content: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(content.split("\n", 1)[1])
    return record


def _inside(path: str) -> Path:
    """The part of a schema path that lies inside the checkpoint: `state/<operator>/_stateSchema/...`."""
    parts = path.split("/")
    at = len(parts) - 1 - parts[::-1].index(_SCHEMAS)
    if at < 2 or parts[at - 2] != "state":
        msg = f"{path!r} is not the path of a state schema"
        raise ValueError(msg)
    inside = "/".join(parts[at - 2 :])
    if not stays_inside(inside):
        msg = f"{path!r} leads out of the checkpoint"
        raise ValueError(msg)
    return Path(inside)


def _absolute(local: Path) -> str:
    return f"file:{local.resolve()}"
