"""`EpochManifest`: everything a restart needs to know about an epoch. It counts once the head names it."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from millstream.checkpoint.names import stored_part, stored_path
from millstream.checkpoint.run_record import RunRecord
from millstream.checkpoint.sealed import seal, unseal_as
from millstream.errors import CheckpointRefused

FORMAT = 2
_NAME = re.compile(r"manifests/[^/]+/(\d+)-(\d+)\.json")
LOWEST_WATERMARK = "millstream:combined"
"""Among the watermarks of steps, under a name that no step can have; manifests of earlier versions say `combined`."""
Kind = Literal["periodic", "savepoint", "exported", "terminal"]


class SourceRange(msgspec.Struct, frozen=True, kw_only=True):
    """What an epoch read of a source: from `start` up to, but without, `end`."""

    start: Any
    end: Any
    digest: str
    """Hash of both."""


class ParticipantRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A source or sink that takes part in the epoch."""

    type: str
    """`source` or `sink`, and the connector's name."""
    state: Any = None
    """What it saved before it prepared."""
    handle: Any = None
    """Its prepared work: what is published, once or again."""


class SinkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A sink's part of the epoch in numbers."""

    protocol: str
    """Its capability, such as STAGED_ATOMIC_COMMIT; `direct` where the tasks wrote in place."""
    rows: int


class StateFileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A file of state that belongs to the epoch."""

    type: str
    path: str
    codec: str
    bytes: int
    checksum: str

    def __post_init__(self) -> None:
        stored_path(self.path, of="a file of state")


class EpochManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one epoch."""

    job: str
    lineage: str
    epoch: int
    token: int
    """Fencing token of the owner that made it durable."""
    kind: Kind
    guarantee: str
    mode: str = ""
    """Of the job; empty in manifests from before there were modes."""
    run: RunRecord = RunRecord()
    """Which run of the job it belongs to, and what that was given."""
    requirements: dict[str, Any]
    fingerprint: str
    fingerprint_steps: dict[str, str]
    parallelism: int
    """Subtasks of every keyed step: state is kept per subtask."""
    depth: int
    """Levels of keyed steps."""
    engine: str
    """`spark` or `local`: where the state lies."""
    digest: str
    """Hash of the epoch plan: which rows this epoch holds."""
    plan: dict[str, Any]
    """The epoch plan: source positions, clock, watermarks."""
    planner: dict[str, Any]
    """What the planner had learned by the end of the epoch."""
    sources: dict[str, SourceRange] = {}
    watermarks: dict[str, int] = {}
    """Per event-time step, and the lowest of them."""
    operators: dict[str, Any] = {}
    """Per keyed step, by uid: its state layout."""
    uids: dict[str, str] = {}
    """Per step id: its uid."""
    history: list[tuple[str, int]] = []
    """The earlier lineages that count, each with its last epoch."""
    participants: dict[str, ParticipantRecord] = {}
    sinks: dict[str, SinkRecord] = {}
    segments: list[StateFileRecord] = []
    counts: dict[str, dict[str, int]] = {}
    """Rows of this epoch per step."""
    created_at: str
    """For people only."""

    def __post_init__(self) -> None:
        stored_part(self.engine, of="an engine")
        for lineage in (self.lineage, *(lineage for lineage, _ in self.history)):
            stored_part(lineage, of="a lineage")
        for uid in self.sources:
            stored_part(uid, of="a source")


def source_connectors(manifest: EpochManifest) -> dict[str, str]:
    """Per source, by uid: its connector."""
    kinds = {uid: record.type.split(" ", 1) for uid, record in manifest.participants.items()}
    return {uid: connector for uid, (kind, connector) in kinds.items() if kind == "source"}


def manifest_name(lineage: str, epoch: int, token: int) -> str:
    """Where a manifest is stored. Two owners never write one name."""
    # Padded, so that stores which list by name list by epoch.
    return f"{manifest_prefix(lineage)}{epoch:012d}-{token:06d}.json"


def manifest_prefix(lineage: str) -> str:
    """What the names of a lineage's manifests start with."""
    return f"manifests/{lineage}/"


def epoch_of(name: str) -> int:
    """The epoch in a manifest's name."""
    return _numbers(name)[0]


def token_of(name: str) -> int:
    """The token in a manifest's name."""
    return _numbers(name)[1]


def _numbers(name: str) -> tuple[int, int]:
    numbers = _NAME.fullmatch(name)
    if numbers is None:
        msg = "an object among the manifests has no manifest's name"
        known = "manifests/LINEAGE/EPOCH-TOKEN.json"
        raise CheckpointRefused(msg, code="CKPT-062", found=repr(name), known=known, hint="move it elsewhere")
    return int(numbers[1]), int(numbers[2])


def encode_manifest(manifest: EpochManifest) -> bytes:
    """The stored form."""
    return seal(msgspec.to_builtins(manifest, str_keys=True), format=FORMAT)


def decode_manifest(data: bytes, *, name: str) -> EpochManifest:
    """Read the stored form, verified."""
    return unseal_as(EpochManifest, data, name=f"manifest {name}", format=FORMAT)
