"""What the service tells of a run that goes on, as values: fields that a newer service adds are passed over."""

from __future__ import annotations

from typing import Any

import msgspec


class LoadInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the last ten seconds, of the worst subtask; their sum is 1."""

    busy: float | None = None
    blocked: float | None = None
    idle: float | None = None
    mean_busy: float | None = None
    level: str | None = None


class SubtaskInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The newest attempt at a subtask, and what it did in the newest epoch."""

    subtask: int
    epoch: int | None = None
    attempt: int | None = None
    state: str | None = None
    error: str | None = None
    busy_seconds: float | None = None
    rows_in: int | None = None
    rows_out: int | None = None


class AttemptInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a subtask."""

    epoch: int
    subtask: int
    attempt: int
    state: str
    seconds: float | None = None
    error: str | None = None


class VertexInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One vertex: steps that run as one."""

    id: str
    uid: str
    name: str
    level: int
    is_keyed: bool
    steps: list[dict[str, Any]]
    status: str
    tasks: dict[str, int]
    load: LoadInfo
    rows: dict[str, Any]
    parallelism: int | None = None
    bytes: dict[str, int] | None = None
    watermark: str | None = None
    first_error: str | None = None
    subtasks: list[SubtaskInfo] = []


class VerticesInfo(msgspec.Struct, frozen=True, kw_only=True):
    """All vertices of a run, and what holds the job back."""

    source: str
    items: list[VertexInfo]
    holder: dict[str, Any] | None = None
