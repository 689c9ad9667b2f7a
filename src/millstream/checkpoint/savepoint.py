"""A savepoint: a directory of state files and copied source logs, made valid by `savepoint.json`, which is written last.

Taking one: every task writes its files under names of its own and reports them; then `create_savepoint` names the reported
files. Without that record the directory is no savepoint. Disposing of one takes the record away first.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.names import stored_part, stored_path
from millstream.checkpoint.page_file import PageFile
from millstream.checkpoint.run_record import RunRecord
from millstream.checkpoint.sealed import seal, unseal
from millstream.checkpoint.stores.local import LocalStore, sync_directory
from millstream.errors import CheckpointRefused

FORMAT = 1
RECORD = "savepoint.json"
_DISPOSED = "savepoint.json.disposed"
_CONTENT = ("state", "sources", "native")
"""Folders of a savepoint."""
_CODES = {"CKPT-002": "SAVE-002", "CKPT-003": "SAVE-003"}
"""A record is sealed as manifests are; its errors have codes of their own."""
_ANOTHER = "restore savepoint.json from a copy, use the version that wrote it, or use another savepoint"


class CopiedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was copied as it is."""

    name: str
    """Relative to the folder it came from."""
    path: str
    """Relative to the savepoint."""
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        stored_path(self.name, of="a copied file", code="SAVE-020")
        stored_path(self.path, of="a copied file", code="SAVE-020")


class Savepoint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a restore needs to know, beside the files it names."""

    id: str
    """Chosen by whoever asked for the savepoint: the same id never makes a second one."""
    kind: Literal["canonical", "native"]
    job: str
    lineage: str
    history: list[tuple[str, int]]
    """The last epoch of each lineage that counts, oldest first; the savepoint's own lineage and epoch stand last."""
    epoch: int
    token: int
    run: RunRecord = RunRecord()
    """The run it was taken of."""
    guarantee: str
    fingerprint: str
    fingerprint_steps: dict[str, str]
    parallelism: int
    key_groups: int
    depth: int = 0
    """Levels of keyed steps."""
    connectors: dict[str, str] = {}
    """Per source, by uid: its connector."""
    protocols: dict[str, str] = {}
    """Per sink, by uid: how it made rows visible."""
    engine: str
    plan: dict[str, Any]
    """The epoch plan: source positions, clock, watermarks."""
    planner: dict[str, Any]
    """What the planner had learned by the end of the epoch."""
    layouts: dict[str, dict[str, Any]]
    """Per keyed step, by uid: how its state is laid out."""
    state: dict[str, list[PageFile]] = {}
    """Per keyed step, by uid: its files of pages. No key group stands in two of them."""
    sources: dict[str, list[CopiedFile]] = {}
    """Per source: the files of its log."""
    native: list[CopiedFile] = []
    """Kind `native`: the copied files of the engine's own state."""
    uids: dict[str, str] = {}
    """Per step id: its uid."""
    counts: dict[str, dict[str, int]] = {}
    """Rows of the epoch per step."""
    created_at: str
    """For people only."""
    version: str
    """Of the program that wrote it."""

    def __post_init__(self) -> None:
        for lineage in (self.lineage, *(lineage for lineage, _ in self.history)):
            stored_part(lineage, of="a lineage", code="SAVE-020")

    def entries(self, uid: str) -> int:
        """Keys of a step (stored rows of a columnar one)."""
        return sum(file.entries for file in self.state.get(uid, ()))


class Listed(NamedTuple):
    """A savepoint found in a folder, or why the one that is there cannot be read."""

    path: Path
    savepoint: Savepoint | None
    problem: CheckpointRefused | None


def state_path(uid: str, name: str) -> str:
    """Where a file of a step's pages lies in a savepoint."""
    return f"state/{safe_name(uid)}/{name}.pages"


def safe_name(text: str) -> str:
    """A name as one component of a path, on every file system."""
    quoted = quote(text, safe="")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted


def encode_savepoint(savepoint: Savepoint) -> bytes:
    """The record: canonical JSON with format and checksum."""
    return seal(msgspec.to_builtins(savepoint, str_keys=True), format=FORMAT)


def decode_savepoint(data: bytes, *, name: str) -> Savepoint:
    """Read a record; a wrong checksum, an unknown format or cut content is refused."""
    try:
        content = unseal(data, name=name, format=FORMAT)
    except CheckpointRefused as problem:
        msg = f"the record of savepoint {problem.message}"
        raise CheckpointRefused(
            msg, code=_CODES[problem.code], found=problem.found, known=problem.known, hint=_ANOTHER
        ) from problem
    try:
        return msgspec.convert(content, Savepoint)
    except msgspec.ValidationError as problem:
        msg = f"the record of savepoint {name} is damaged: {problem}"
        raise CheckpointRefused(msg, code="SAVE-003", hint=_ANOTHER) from problem


def read_savepoint(path: Path | str) -> Savepoint:
    """The record of the savepoint at a path; that there is none is an error."""
    savepoint = _stored(Path(path))
    if savepoint is None:
        raise _none_at(Path(path))
    return savepoint


def existing_savepoint(path: Path | str, savepoint_id: str) -> Savepoint | None:
    """What an earlier request of this id has made at this path; another savepoint there is refused."""
    existing = _stored(Path(path))
    if existing is not None and existing.id != savepoint_id:
        msg = f"directory {path} holds another savepoint"
        raise CheckpointRefused(
            msg,
            code="SAVE-006",
            found=existing.id,
            known=savepoint_id,
            hint="choose another directory, or dispose of it",
        )
    return existing


def create_savepoint(path: Path | str, savepoint: Savepoint) -> Savepoint:
    """Make a savepoint valid, once its files are on disk; returns the one that counts.

    A repeat with the same id returns what stands there, whoever wrote it; another savepoint at the path is refused.
    """
    root = Path(path)
    store = LocalStore(root)
    failpoint("savepoint_written")
    if store.create(RECORD, encode_savepoint(savepoint)):
        return savepoint
    existing = existing_savepoint(root, savepoint.id)
    if existing is None:
        msg = f"the savepoint at {root} was removed while it was written"
        raise CheckpointRefused(msg, code="SAVE-001", known=RECORD, hint="take it again")
    return existing


def list_savepoints(folder: Path | str) -> list[Listed]:
    """The savepoints directly inside a folder, oldest first; those that cannot be read come last, with the reason."""
    root = Path(folder)
    places = sorted(path.parent for path in root.glob(f"*/{RECORD}")) if root.is_dir() else []
    listed = [_listed(place) for place in places]
    return sorted(listed, key=lambda each: "~" if each.savepoint is None else each.savepoint.created_at)


def dispose_savepoint(path: Path | str) -> None:
    """Remove a savepoint. Its record goes first, so a crash leaves no half savepoint; a repeat removes the rest.

    Only what belongs to a savepoint is removed, and a directory without the record of one is refused.
    """
    root = Path(path)
    if (root / RECORD).is_file():
        (root / RECORD).replace(root / _DISPOSED)
        sync_directory(root)
    elif not (root / _DISPOSED).exists():
        raise _none_at(root)
    for name in _CONTENT:
        if (root / name).is_dir():
            shutil.rmtree(root / name)
    (root / _DISPOSED).unlink()
    if not any(root.iterdir()):
        root.rmdir()


def _stored(root: Path) -> Savepoint | None:
    try:
        content = (root / RECORD).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    return decode_savepoint(content, name=str(root))


def _listed(place: Path) -> Listed:
    try:
        return Listed(place, read_savepoint(place), None)
    except CheckpointRefused as problem:
        return Listed(place, None, problem)


def _none_at(root: Path) -> CheckpointRefused:
    msg = f"there is no savepoint at {root}"
    return CheckpointRefused(msg, code="SAVE-001", known=RECORD, hint="give the directory that holds savepoint.json")
