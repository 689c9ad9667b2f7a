"""The stored lease of a checkpoint, and the words with which it is refused."""

from __future__ import annotations

import datetime as dt

import msgspec

from millstream.checkpoint.owner import ProcessIdentity
from millstream.checkpoint.sealed import seal, unseal_as
from millstream.errors import CheckpointRefused, Fenced

LEASE = "lease.json"
FORMAT = 1


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The stored lease."""

    token: int
    owner: str
    process: ProcessIdentity
    term: int
    """Milliseconds after which a lease that does not change may be taken."""
    beat: int = 0
    renewed_at: float = 0.0
    """Seconds since 1970 by the owner's clock."""
    is_released: bool = False
    is_settled: bool = False
    """Whether the owner left with every durable epoch published."""
    claim: int = 0
    """Which giving away of the run the owner has it by; 0 when a person started it."""


def encode_lease(record: LeaseRecord) -> bytes:
    """The stored form."""
    return seal(msgspec.to_builtins(record), format=FORMAT)


def decode_lease(data: bytes) -> LeaseRecord:
    """Read the stored form, verified."""
    return unseal_as(LeaseRecord, data, name=LEASE, format=FORMAT)


def replaced(mine: LeaseRecord, other: LeaseRecord | None) -> Fenced:
    """The error of an owner whose record is no longer there."""
    msg = "another owner took over this checkpoint"
    known = "nothing" if other is None else f"token {other.token}"
    return Fenced(msg, found=f"token {mine.token}", known=known, hint="this run ends by itself")


def outclaimed(record: LeaseRecord, claim: int) -> Fenced:
    """The error of an owner that comes too late."""
    msg = "the run was given to another process after it was given to this one"
    return Fenced(msg, found=f"claim {claim}", known=f"claim {record.claim}", hint="this run ends by itself")


def held(record: LeaseRecord) -> CheckpointRefused:
    """The error of whoever finds a live owner."""
    process = record.process
    at = dt.datetime.fromtimestamp(record.renewed_at, dt.UTC).isoformat(timespec="seconds")
    msg = "another process runs this checkpoint"
    return CheckpointRefused(
        msg,
        code="CKPT-021",
        found=f"process {process.pid} on {process.host}, renewed at {at}, token {record.token}",
        hint="stop it first (millstream drain CHECKPOINT), or use another checkpoint",
    )
