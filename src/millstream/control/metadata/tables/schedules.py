"""When jobs run: schedules, what was decided for each fire, webhooks and backfills."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    true,
)

from millstream.control.metadata.tables.columns import SCHEMA, Id, Json, UtcTime, one_of, serial

SCHEDULE_TYPES = ("CRON", "MANUAL", "EVENT", "DEPENDENCY")

schedule = Table(
    "pipeline_job_schedule",
    SCHEMA,
    serial(),
    Column("job_id", Id, ForeignKey("pipeline_job_definition.id"), nullable=False, unique=True),
    Column("schedule_type", String(16), nullable=False),
    Column("cron_expression", String(128)),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("next_trigger_time", UtcTime),
    Column("time_zone", String(64), nullable=False, server_default="UTC"),
    Column("misfire", String(8), nullable=False, server_default="one"),
    Column("grace_seconds", Integer, nullable=False, server_default="3600"),
    Column("concurrency", String(32), nullable=False, server_default="skip"),
    Column("spec", Json, nullable=False),
    Column("revision", Integer, nullable=False, server_default="1"),
    Column("revised_at", UtcTime, nullable=False),
    Column("event_cursor", Json),
    one_of("schedule_type", SCHEDULE_TYPES, "schedule_type"),
    one_of("misfire", ("skip", "one", "all"), "misfire"),
    CheckConstraint("schedule_type <> 'CRON' OR cron_expression IS NOT NULL", name="cron_expression"),
    CheckConstraint("grace_seconds >= 0", name="grace_seconds"),
)
"""`next_trigger_time` is a cache: what is due is read by it, the fire's row is the proof."""
Index("ix_schedule_due", schedule.c.enabled, schedule.c.next_trigger_time)

schedule_fire = Table(
    "schedule_fire",
    SCHEMA,
    Column("job_id", Id, ForeignKey("pipeline_job_definition.id"), primary_key=True),
    Column("fire_time", UtcTime, primary_key=True),
    Column("cause", String(200), primary_key=True),
    Column("decided_at", UtcTime, nullable=False),
    Column("result", String(16), nullable=False),
    Column("reason", Text),
    Column("execution_id", String(64)),
    Column("revision", Integer, nullable=False),
    Column("time_zone", String(64), nullable=False),
    one_of("result", ("FIRED", "SKIPPED", "QUEUED"), "result"),
)
"""Its key is what makes a double fire impossible."""
Index("ix_schedule_fire_decided", schedule_fire.c.decided_at)
Index("ix_schedule_fire_queue", schedule_fire.c.result, schedule_fire.c.job_id, schedule_fire.c.fire_time)

hook = Table(
    "hook",
    SCHEMA,
    Column("name", String(64), primary_key=True),
    Column("job_id", Id, ForeignKey("pipeline_job_definition.id"), nullable=False),
    Column("secret_name", String(128), nullable=False),
    Column("last_seen", UtcTime),
)

hook_call = Table(
    "hook_call",
    SCHEMA,
    Column("name", String(64), ForeignKey("hook.name"), primary_key=True),
    Column("call_id", String(128), primary_key=True),
    Column("time", UtcTime, nullable=False),
)
"""Calls of the last minutes: one that is repeated is refused."""

backfill = Table(
    "backfill",
    SCHEMA,
    serial(),
    Column("job_id", Id, ForeignKey("pipeline_job_definition.id"), nullable=False),
    Column("trigger_id", String(200), nullable=False),
    Column("from_time", UtcTime, nullable=False),
    Column("to_time", UtcTime, nullable=False),
    Column("direction", String(8), nullable=False, server_default="oldest"),
    Column("max_parallel", Integer, nullable=False, server_default="1"),
    Column("status", String(16), nullable=False),
    Column("create_time", UtcTime, nullable=False),
    Column("end_time", UtcTime),
    Column("actor", String(128), nullable=False),
    UniqueConstraint("job_id", "trigger_id"),
    one_of("status", ("RUNNING", "DONE", "CANCELLED"), "status"),
    one_of("direction", ("oldest", "newest"), "direction"),
    CheckConstraint("max_parallel > 0", name="max_parallel"),
)
