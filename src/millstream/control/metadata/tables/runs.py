"""Runs, what happened to them, their checkpoints and savepoints, and where their bad records are."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, Numeric, String, Table, Text, UniqueConstraint, desc, text

from millstream.control.lifecycle.states import OPEN, Status
from millstream.control.metadata.tables.columns import SCHEMA, Id, Json, UtcTime, one_of, serial

_IS_OPEN = text(f"status IN ({', '.join(repr(str(status)) for status in sorted(OPEN))})")

execution = Table(
    "pipeline_job_execution",
    SCHEMA,
    serial(),
    Column("execution_id", String(64), nullable=False, unique=True),
    Column("job_id", Id, ForeignKey("pipeline_job_definition.id"), nullable=False),
    Column("job_name", String(128), nullable=False),
    Column("status", String(16), nullable=False),
    Column("start_time", UtcTime, nullable=False),
    Column("end_time", UtcTime),
    Column("processed_records", Id, nullable=False, server_default="0"),
    Column("failed_records", Id, nullable=False, server_default="0"),
    Column("throughput", Numeric(18, 2)),
    Column("error_message", Text),
    Column("retry_count", Integer, nullable=False, server_default="0"),
    Column("job_version", Integer, nullable=False),
    Column("trigger_id", String(200), nullable=False),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("token", Id, nullable=False, server_default="0"),
    Column("node_id", String(64)),
    Column("not_before", UtcTime, nullable=False),
    Column("wanted", String(24)),
    Column("wanted_at", UtcTime),
    Column("wanted_request", Json),
    Column("driver", Json),
    Column("error_code", String(32)),
    Column("error_class", String(16)),
    Column("slot_no", Integer, nullable=False, server_default="0"),
    Column("row_version", Integer, nullable=False, server_default="0"),
    Column("options", Json, nullable=False),
    Column("config", Json),
    Column("progress", Json),
    Column("failures", Json, nullable=False),
    UniqueConstraint("job_id", "trigger_id"),
    one_of("status", sorted(Status), "status"),
    one_of("wanted", ("drain", "suspend", "cancel"), "wanted"),
)
"""`options`: how the run starts (savepoint, parameters, interval); `config`: settings and parameters of its job then;
`failures`: when it failed lately."""
Index(
    "uq_execution_active",
    execution.c.job_id,
    execution.c.slot_no,
    unique=True,
    sqlite_where=_IS_OPEN,
    postgresql_where=_IS_OPEN,
)
Index("ix_execution_job_start", execution.c.job_id, desc(execution.c.start_time))
Index("ix_execution_claim", execution.c.status, execution.c.not_before, execution.c.id)
Index("ix_execution_start", desc(execution.c.start_time))

run_event = Table(
    "run_event",
    SCHEMA,
    serial(),
    Column("execution_id", String(64), ForeignKey("pipeline_job_execution.execution_id"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("time", UtcTime, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("from_status", String(16)),
    Column("to_status", String(16)),
    Column("cause", Text, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("token", Id, nullable=False),
    Column("details", Json),
    UniqueConstraint("execution_id", "seq"),
)
Index("ix_run_event_time", run_event.c.time)

checkpoint = Table(
    "pipeline_checkpoint",
    SCHEMA,
    serial(),
    Column("execution_id", String(64), ForeignKey("pipeline_job_execution.execution_id"), nullable=False),
    Column("checkpoint_id", Id, nullable=False),
    Column("checkpoint_type", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("state_data", Json),
    Column("storage_path", Text),
    Column("storage_size_bytes", Id),
    Column("create_time", UtcTime, nullable=False),
    Column("complete_time", UtcTime),
    Column("token", Id, nullable=False),
    Column("phases", Json),
    Column("summary", Json),
    UniqueConstraint("execution_id", "checkpoint_id"),
    one_of("checkpoint_type", ("CHECKPOINT", "SAVEPOINT"), "checkpoint_type"),
    one_of("status", ("COMPLETED", "FAILED"), "status"),
)
"""An index of manifests, which are the truth. `state_data` never holds user state."""

savepoint = Table(
    "savepoint",
    SCHEMA,
    serial(),
    Column("job_id", Id, ForeignKey("pipeline_job_definition.id"), nullable=False),
    Column("execution_id", String(64), ForeignKey("pipeline_job_execution.execution_id")),
    Column("trigger_id", String(200), nullable=False),
    Column("epoch", Id),
    Column("lineage", String(64)),
    Column("fingerprint", String(128)),
    Column("format", String(16), nullable=False),
    Column("path", Text, nullable=False),
    Column("size", Id),
    Column("status", String(16), nullable=False),
    Column("create_time", UtcTime, nullable=False),
    Column("complete_time", UtcTime),
    UniqueConstraint("job_id", "trigger_id"),
    one_of("format", ("canonical", "native"), "format"),
    one_of("status", ("READY", "DISPOSED"), "status"),
)

dead_letter = Table(
    "dead_letter",
    SCHEMA,
    serial(),
    Column("execution_id", String(64), ForeignKey("pipeline_job_execution.execution_id"), nullable=False),
    Column("epoch", Id, nullable=False),
    Column("step_uid", String(128), nullable=False),
    Column("reason", String(128), nullable=False),
    Column("count", Id, nullable=False),
    Column("location", Text, nullable=False, server_default=""),
    Column("replayed_by", String(64)),
    Column("create_time", UtcTime, nullable=False),
    UniqueConstraint("execution_id", "epoch", "step_uid", "reason", "location"),
)
"""An index of files: the records themselves are where the job's sink put them."""
