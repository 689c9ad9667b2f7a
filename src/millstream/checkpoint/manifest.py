"""`EpochManifest`: the record that makes an epoch durable. Its checksum is verified before anything in it is believed."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

import msgspec

from millstream.errors import CheckpointRefused

FORMAT = 1


class EpochManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a restart needs to know about an epoch."""

    job: str
    lineage: str
    epoch: int
    kind: Literal["periodic", "terminal"]
    guarantee: str
    fingerprint: str
    fingerprint_steps: dict[str, str]
    parallelism: int
    """Subtasks of every keyed step: state is kept per subtask."""
    engine: str
    """`spark` or `local`: where the state lies."""
    digest: str
    """Hash of the epoch plan: which rows this epoch holds."""
    plan: dict[str, Any]
    """The epoch plan: source positions, clock, watermarks."""
    planner: dict[str, Any]
    """What the planner had learned by the end of the epoch."""
    sinks: dict[str, Any] = {}
    """Per sink: the transaction to publish."""
    counts: dict[str, dict[str, int]] = {}
    """Rows of this epoch per step."""
    created_at: str
    """For people only."""


def manifest_name(epoch: int) -> str:
    """Where the manifest of an epoch is stored."""
    return f"manifests/{epoch:012d}.json"


def encode_manifest(manifest: EpochManifest) -> bytes:
    """Canonical JSON with format and checksum."""
    content = msgspec.to_builtins(manifest, str_keys=True)
    body = _canonical(content)
    return _canonical({"format": FORMAT, "checksum": hashlib.sha256(body).hexdigest(), "manifest": content})


def decode_manifest(data: bytes, *, name: str) -> EpochManifest:
    """Read a manifest; a wrong checksum, an unknown format or cut content is refused."""
    try:
        envelope = json.loads(data)
        stored, checksum, content = envelope["format"], envelope["checksum"], envelope["manifest"]
    except (ValueError, KeyError, TypeError) as problem:
        raise _damaged(name, f"not readable ({problem})") from None
    if stored != FORMAT:
        msg = f"manifest {name} has another format"
        raise CheckpointRefused(
            msg, code="CKPT-002", found=stored, known=FORMAT, hint="resume with the version that wrote it"
        )
    if hashlib.sha256(_canonical(content)).hexdigest() != checksum:
        raise _damaged(name, "checksum does not match")
    return msgspec.convert(content, EpochManifest)


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _damaged(name: str, why: str) -> CheckpointRefused:
    msg = f"manifest {name} is damaged: {why}"
    return CheckpointRefused(
        msg, code="CKPT-003", hint="restore the file from a copy, or start in a new checkpoint directory"
    )
