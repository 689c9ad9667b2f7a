"""Definitions of jobs, their versions, their settings and the code they bring."""

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
    false,
    true,
)

from millstream.control.metadata.tables.columns import SCHEMA, Id, Json, UtcTime, one_of, serial

JOB_TYPES = ("STREAMING", "BATCH_ROLLER", "SQL_TASK")
CONFIG_TYPES = ("STRING", "INT", "BOOLEAN", "JSON")

job_definition = Table(
    "pipeline_job_definition",
    SCHEMA,
    serial(),
    Column("job_name", String(128), nullable=False, unique=True),
    Column("job_type", String(32), nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("dag_definition", Json, nullable=False),
    Column("description", Text),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("parallelism", Integer),
    Column("max_retry_times", Integer, nullable=False, server_default="3"),
    Column("create_time", UtcTime, nullable=False),
    Column("update_time", UtcTime, nullable=False),
    Column("fingerprint", String(128), nullable=False),
    Column("artifact_sha256", String(64)),
    Column("desired", String(16), nullable=False, server_default="STOPPED"),
    Column("settings", Json, nullable=False),
    Column("deleted_time", UtcTime),
    one_of("job_type", JOB_TYPES, "job_type"),
    one_of("desired", ("RUNNING", "STOPPED"), "desired"),
    CheckConstraint("parallelism > 0", name="parallelism"),
    CheckConstraint("max_retry_times >= 0", name="max_retry_times"),
)
"""One row per job name; the newest version stands here too. `settings`: engine, restart rule, what is kept, labels."""

job_version = Table(
    "job_version",
    SCHEMA,
    Column("job_id", Id, ForeignKey("pipeline_job_definition.id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("dag_definition", Json, nullable=False),
    Column("parallelism", Integer),
    Column("settings", Json, nullable=False),
    Column("plan", Json),
    Column("fingerprint", String(128), nullable=False),
    Column("artifact_sha256", String(64)),
    Column("create_time", UtcTime, nullable=False),
    Column("created_by", String(128), nullable=False),
)

job_config = Table(
    "pipeline_job_config",
    SCHEMA,
    serial(),
    Column("job_id", Id, ForeignKey("pipeline_job_definition.id"), nullable=False),
    Column("config_key", String(128), nullable=False),
    Column("config_value", Text, nullable=False),
    Column("config_type", String(16), nullable=False, server_default="STRING"),
    Column("is_sensitive", Boolean, nullable=False, server_default=false()),
    Column("key_id", String(64)),
    UniqueConstraint("job_id", "config_key"),
    one_of("config_type", CONFIG_TYPES, "config_type"),
    CheckConstraint("NOT is_sensitive OR key_id IS NOT NULL", name="sensitive_is_encrypted"),
)

artifact = Table(
    "artifact",
    SCHEMA,
    Column("sha256", String(64), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("size", Id, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("create_time", UtcTime, nullable=False),
    Column("created_by", String(128), nullable=False),
    one_of("kind", ("zip", "wheel"), "kind"),
    one_of("state", ("READY", "DELETED"), "state"),
)
Index("ix_job_definition_fingerprint", job_definition.c.fingerprint)
