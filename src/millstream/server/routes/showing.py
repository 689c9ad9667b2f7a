"""Rows as callers see them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, Select, select

from millstream.control.act import Act
from millstream.control.metadata.tables.runs import execution
from millstream.server.routes.shapes import EventShown, JobShown, OperationShown, RunShown, RunSummary


def newest_run(act: Act, job_id: int) -> Row[Any] | None:
    """The run of a job that was started last."""
    columns = execution.c.id, execution.c.row_version, execution.c.execution_id, execution.c.status
    times = execution.c.start_time, execution.c.end_time
    found: Select[Any] = select(*columns, *times).where(execution.c.job_id == job_id)
    return act.connection.execute(found.order_by(execution.c.start_time.desc(), execution.c.id.desc()).limit(1)).first()


def shown_job(job: Row[Any], newest: Row[Any] | None) -> JobShown:
    """A job with its newest run."""
    return JobShown(
        name=job.job_name,
        type=job.job_type,
        version=job.version,
        description=job.description,
        enabled=job.enabled,
        desired=job.desired,
        parallelism=job.parallelism,
        max_retry_times=job.max_retry_times,
        settings=job.settings,
        dag_definition=job.dag_definition,
        fingerprint=job.fingerprint,
        artifact=job.artifact_sha256,
        create_time=job.create_time,
        update_time=job.update_time,
        run=None if newest is None else shown_summary(newest),
    )


def shown_summary(run: Row[Any]) -> RunSummary:
    """As much of a run as stands beside its job."""
    return RunSummary(id=run.execution_id, status=run.status, start_time=run.start_time, end_time=run.end_time)


def shown_run(run: Row[Any]) -> RunShown:
    """All of a run."""
    return RunShown(
        id=run.execution_id,
        job=run.job_name,
        version=run.job_version,
        status=run.status,
        wanted=run.wanted,
        trigger_id=run.trigger_id,
        attempt=run.attempt,
        retry_count=run.retry_count,
        node=run.node_id,
        start_time=run.start_time,
        end_time=run.end_time,
        not_before=run.not_before,
        processed_records=run.processed_records,
        failed_records=run.failed_records,
        throughput=None if run.throughput is None else float(run.throughput),
        error_code=run.error_code,
        error_class=run.error_class,
        error_message=run.error_message,
        options=run.options,
        progress=run.progress,
    )


def shown_event(row: Row[Any]) -> EventShown:
    """One event."""
    return EventShown(
        id=row.id,
        run=row.execution_id,
        seq=row.seq,
        time=row.time,
        kind=row.kind,
        before=row.from_status,
        after=row.to_status,
        cause=row.cause,
        actor=row.actor,
        token=row.token,
        details=row.details,
    )


def shown_operation(row: Row[Any]) -> OperationShown:
    """One operation."""
    return OperationShown(
        id=row.id,
        kind=row.kind,
        target=row.target,
        actor=row.actor,
        status=row.status,
        result=row.result,
        error=row.error,
        create_time=row.create_time,
        end_time=row.end_time,
    )
