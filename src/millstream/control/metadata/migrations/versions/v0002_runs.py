"""Tables of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)
OPEN = sa.text(
    "status IN ('CANCELLING', 'CHECKPOINTING', 'CREATED', 'FAILED', 'INITIALIZING', 'RESTORING', 'RUNNING', 'SCHEDULED')"
)
STATUSES = (
    "status IN ('CANCELLED', 'CANCELLING', 'CHECKPOINTING', 'COMPLETED', 'CREATED', 'DEAD', 'FAILED', 'INITIALIZING', "
    "'RESTORING', 'RUNNING', 'SCHEDULED', 'SUSPENDED')"
)
TABLES: list[tuple[str, *tuple[sa.schema.SchemaItem, ...]]] = [
    (
        "pipeline_job_execution",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("execution_id", sa.String(length=64), nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("job_name", sa.String(length=128), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("start_time", TIME, nullable=False),
        sa.Column("end_time", TIME, nullable=True),
        sa.Column("processed_records", ID, server_default="0", nullable=False),
        sa.Column("failed_records", ID, server_default="0", nullable=False),
        sa.Column("throughput", sa.Numeric(precision=18, scale=2), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("retry_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("job_version", sa.Integer(), nullable=False),
        sa.Column("trigger_id", sa.String(length=200), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("token", ID, server_default="0", nullable=False),
        sa.Column("node_id", sa.String(length=64), nullable=True),
        sa.Column("not_before", TIME, nullable=False),
        sa.Column("wanted", sa.String(length=24), nullable=True),
        sa.Column("wanted_at", TIME, nullable=True),
        sa.Column("wanted_request", JSON, nullable=True),
        sa.Column("driver", JSON, nullable=True),
        sa.Column("error_code", sa.String(length=32), nullable=True),
        sa.Column("error_class", sa.String(length=16), nullable=True),
        sa.Column("slot_no", sa.Integer(), server_default="0", nullable=False),
        sa.Column("row_version", sa.Integer(), server_default="0", nullable=False),
        sa.Column("options", JSON, nullable=False),
        sa.Column("progress", JSON, nullable=True),
        sa.Column("failures", JSON, nullable=False),
        sa.CheckConstraint(
            STATUSES,
            name="ck_pipeline_job_execution_status",
        ),
        sa.CheckConstraint("wanted IN ('drain', 'suspend', 'cancel')", name="ck_pipeline_job_execution_wanted"),
        sa.ForeignKeyConstraint(["job_id"], ["pipeline_job_definition.id"], name="fk_pipeline_job_execution_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_job_execution"),
        sa.UniqueConstraint("execution_id", name="uq_pipeline_job_execution_execution_id"),
        sa.UniqueConstraint("job_id", "trigger_id", name="uq_pipeline_job_execution_job_id_trigger_id"),
    ),
    (
        "dead_letter",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("execution_id", sa.String(length=64), nullable=False),
        sa.Column("epoch", ID, nullable=False),
        sa.Column("step_uid", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.String(length=128), nullable=False),
        sa.Column("count", ID, nullable=False),
        sa.Column("location", sa.Text(), server_default="", nullable=False),
        sa.Column("replayed_by", sa.String(length=64), nullable=True),
        sa.Column("create_time", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["pipeline_job_execution.execution_id"], name="fk_dead_letter_execution_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_dead_letter"),
        sa.UniqueConstraint(
            "execution_id",
            "epoch",
            "step_uid",
            "reason",
            "location",
            name="uq_dead_letter_execution_id_epoch_step_uid_reason_location",
        ),
    ),
    (
        "pipeline_checkpoint",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("execution_id", sa.String(length=64), nullable=False),
        sa.Column("checkpoint_id", ID, nullable=False),
        sa.Column("checkpoint_type", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("state_data", JSON, nullable=True),
        sa.Column("storage_path", sa.Text(), nullable=True),
        sa.Column("storage_size_bytes", ID, nullable=True),
        sa.Column("create_time", TIME, nullable=False),
        sa.Column("complete_time", TIME, nullable=True),
        sa.Column("token", ID, nullable=False),
        sa.Column("phases", JSON, nullable=True),
        sa.Column("summary", JSON, nullable=True),
        sa.CheckConstraint(
            "checkpoint_type IN ('CHECKPOINT', 'SAVEPOINT')", name="ck_pipeline_checkpoint_checkpoint_type"
        ),
        sa.CheckConstraint("status IN ('COMPLETED', 'FAILED')", name="ck_pipeline_checkpoint_status"),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["pipeline_job_execution.execution_id"], name="fk_pipeline_checkpoint_execution_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_checkpoint"),
        sa.UniqueConstraint("execution_id", "checkpoint_id", name="uq_pipeline_checkpoint_execution_id_checkpoint_id"),
    ),
    (
        "run_event",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("execution_id", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("time", TIME, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("from_status", sa.String(length=16), nullable=True),
        sa.Column("to_status", sa.String(length=16), nullable=True),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("token", ID, nullable=False),
        sa.Column("details", JSON, nullable=True),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["pipeline_job_execution.execution_id"], name="fk_run_event_execution_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_run_event"),
        sa.UniqueConstraint("execution_id", "seq", name="uq_run_event_execution_id_seq"),
    ),
    (
        "savepoint",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("execution_id", sa.String(length=64), nullable=True),
        sa.Column("trigger_id", sa.String(length=200), nullable=False),
        sa.Column("epoch", ID, nullable=True),
        sa.Column("lineage", sa.String(length=64), nullable=True),
        sa.Column("fingerprint", sa.String(length=128), nullable=True),
        sa.Column("format", sa.String(length=16), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("size", ID, nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("create_time", TIME, nullable=False),
        sa.Column("complete_time", TIME, nullable=True),
        sa.CheckConstraint("format IN ('canonical', 'native')", name="ck_savepoint_format"),
        sa.CheckConstraint("status IN ('READY', 'DISPOSED')", name="ck_savepoint_status"),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["pipeline_job_execution.execution_id"], name="fk_savepoint_execution_id"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["pipeline_job_definition.id"], name="fk_savepoint_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_savepoint"),
        sa.UniqueConstraint("job_id", "trigger_id", name="uq_savepoint_job_id_trigger_id"),
    ),
]


def upgrade() -> None:
    """Forward."""
    for name, *parts in TABLES:
        op.create_table(name, *parts)
    op.create_index("ix_execution_claim", "pipeline_job_execution", ["status", "not_before", "id"], unique=False)
    op.create_index(
        "ix_execution_job_start",
        "pipeline_job_execution",
        ["job_id", sa.literal_column("start_time DESC")],
        unique=False,
    )
    op.create_index(
        "ix_execution_start", "pipeline_job_execution", [sa.literal_column("start_time DESC")], unique=False
    )
    op.create_index(
        "uq_execution_active",
        "pipeline_job_execution",
        ["job_id", "slot_no"],
        unique=True,
        sqlite_where=OPEN,
        postgresql_where=OPEN,
    )
    op.create_index("ix_run_event_time", "run_event", ["time"], unique=False)


def downgrade() -> None:
    """Back."""
    for name, *_ in reversed(TABLES):
        op.drop_table(name)
