"""What the service answers, as values: fields that a newer service adds are passed over."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What answers, and who it takes the caller for."""

    version: str
    database: str
    time: dt.datetime
    you: str
    role: str
    python: str = ""
    revision: str | None = None
    parts: list[str] = []
    started: dt.datetime | None = None


class Slots(msgspec.Struct, frozen=True, kw_only=True):
    """Slots of nodes."""

    total: int
    used: int


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The service at a glance."""

    jobs: int
    runs: dict[str, int]
    nodes: dict[str, int]
    slots: Slots


class RunBrief(msgspec.Struct, frozen=True, kw_only=True):
    """The newest run of a job."""

    id: str
    status: str
    start_time: dt.datetime
    end_time: dt.datetime | None = None


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is now; `etag` says which one was seen, and is there where the job was read alone."""

    name: str
    type: str
    version: int
    enabled: bool
    desired: str
    max_retry_times: int
    settings: dict[str, Any]
    dag_definition: dict[str, Any]
    fingerprint: str
    create_time: dt.datetime
    update_time: dt.datetime
    description: str | None = None
    parallelism: int | None = None
    artifact: str | None = None
    run: RunBrief | None = None
    etag: str = ""


class VersionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a job, as it was submitted."""

    version: int
    fingerprint: str
    settings: dict[str, Any]
    dag_definition: dict[str, Any]
    create_time: dt.datetime
    created_by: str
    parallelism: int | None = None
    artifact: str | None = None


class DiffInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from one version to another."""

    before: int
    after: int
    same_fingerprint: bool
    settings: dict[str, Any]
    diff: str


class PlanInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A layer of a plan."""

    version: int
    layer: str
    text: str
    chart: str
    plan: Any = None


class PlannedInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a definition would be."""

    name: str
    type: str
    fingerprint: str
    parallelism: int
    guarantee: str
    steps: list[dict[str, Any]]
    secrets: list[str]
    params: list[dict[str, Any]]


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One run, over all of its attempts."""

    id: str
    job: str
    version: int
    status: str
    trigger_id: str
    attempt: int
    retry_count: int
    start_time: dt.datetime
    not_before: dt.datetime
    processed_records: int
    failed_records: int
    options: dict[str, Any]
    wanted: str | None = None
    node: str | None = None
    end_time: dt.datetime | None = None
    throughput: float | None = None
    error_code: str | None = None
    error_class: str | None = None
    error_message: str | None = None
    progress: dict[str, Any] | None = None


class EventInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a run, and why."""

    id: int
    run: str
    seq: int
    time: dt.datetime
    kind: str
    cause: str
    actor: str
    token: int
    before: str | None = None
    after: str | None = None
    details: dict[str, Any] | None = None


class EpochInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch of a run."""

    epoch: int
    kind: str
    status: str
    create_time: dt.datetime
    complete_time: dt.datetime | None = None
    state: dict[str, Any] | None = None
    path: str | None = None
    bytes: int | None = None
    phases: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None


class FailureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One failure of a run."""

    time: dt.datetime
    seq: int
    message: str
    actor: str
    token: int
    code: str | None = None
    domain: str | None = None


class LetterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where bad records are."""

    id: int
    run: str
    epoch: int
    step: str
    reason: str
    count: int
    location: str
    create_time: dt.datetime
    replayed_by: str | None = None


class LogText(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a log; go on at `next`."""

    text: str
    next: int
    size: int


class OperationInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and what came of it."""

    id: str
    kind: str
    target: str
    actor: str
    status: str
    create_time: dt.datetime
    end_time: dt.datetime | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status in ("done", "failed")


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node, with the runs it answers for."""

    id: str
    state: str
    slots: int
    labels: dict[str, str]
    version: str
    heartbeat_at: dt.datetime
    started_at: dt.datetime
    age: float
    runs: list[str]
    details: dict[str, Any]
    address: str | None = None


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A token; `token` itself is there in the answer that made it."""

    id: str
    name: str
    role: str
    created: dt.datetime
    expires: dt.datetime
    last_used: dt.datetime | None = None
    revoked: dt.datetime | None = None
    token: str = ""


class AuditInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was done, or refused."""

    id: int
    time: dt.datetime
    actor: str
    action: str
    target: str
    result: str
    token_id: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    detail: str | None = None
    request_id: str | None = None


class StreamedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the stream."""

    event: str
    data: dict[str, Any]
    id: int | None = None
