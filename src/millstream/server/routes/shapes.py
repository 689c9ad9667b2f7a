"""Bodies that routes take and give: an unknown field of a body is refused, times are RFC 3339 in UTC."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, ConfigDict

Name = Annotated[str, Path(min_length=1, max_length=128, description="The job's name.")]
RunId = Annotated[str, Path(min_length=1, max_length=64, description="The run's id, or how it begins.")]


class Body(BaseModel):
    """What a caller sends."""

    model_config = ConfigDict(extra="forbid", strict=True)


class RunSummary(BaseModel):
    """The newest run of a job."""

    id: str
    status: str
    start_time: dt.datetime
    end_time: dt.datetime | None


class JobShown(BaseModel):
    """A job as it is now."""

    name: str
    type: str
    version: int
    description: str | None
    enabled: bool
    desired: str
    parallelism: int | None
    max_retry_times: int
    settings: dict[str, Any]
    dag_definition: dict[str, Any]
    fingerprint: str
    artifact: str | None
    create_time: dt.datetime
    update_time: dt.datetime
    run: RunSummary | None = None


class RunShown(BaseModel):
    """One run, over all of its attempts."""

    id: str
    job: str
    version: int
    status: str
    wanted: str | None
    trigger_id: str
    attempt: int
    retry_count: int
    node: str | None
    start_time: dt.datetime
    end_time: dt.datetime | None
    not_before: dt.datetime
    processed_records: int
    failed_records: int
    throughput: float | None
    error_code: str | None
    error_class: str | None
    error_message: str | None
    options: dict[str, Any]
    progress: dict[str, Any] | None


class EventShown(BaseModel):
    """Something that happened to a run, and why."""

    id: int
    run: str
    seq: int
    time: dt.datetime
    kind: str
    before: str | None
    after: str | None
    cause: str
    actor: str
    token: int
    details: dict[str, Any] | None


class OperationOpened(BaseModel):
    """Work that takes a while; look at `/v1/operations/{operation}`."""

    operation: str
    model_config = ConfigDict(json_schema_extra={"example": {"operation": "0f3c6f1e5a0b4c7f9f10a2d0f6a1b2c3"}})


class OperationShown(BaseModel):
    """What was asked for, and what came of it."""

    id: str
    kind: str
    target: str
    actor: str
    status: str
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    create_time: dt.datetime
    end_time: dt.datetime | None
