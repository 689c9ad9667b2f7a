"""Tables of schedules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)
TABLES: list[tuple[str, *tuple[sa.schema.SchemaItem, ...]]] = [
    (
        "backfill",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("trigger_id", sa.String(length=200), nullable=False),
        sa.Column("from_time", TIME, nullable=False),
        sa.Column("to_time", TIME, nullable=False),
        sa.Column("direction", sa.String(length=8), server_default="oldest", nullable=False),
        sa.Column("max_parallel", sa.Integer(), server_default="1", nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("create_time", TIME, nullable=False),
        sa.Column("end_time", TIME, nullable=True),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.CheckConstraint("direction IN ('oldest', 'newest')", name="ck_backfill_direction"),
        sa.CheckConstraint("status IN ('RUNNING', 'DONE', 'CANCELLED')", name="ck_backfill_status"),
        sa.CheckConstraint("max_parallel > 0", name="ck_backfill_max_parallel"),
        sa.ForeignKeyConstraint(["job_id"], ["pipeline_job_definition.id"], name="fk_backfill_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_backfill"),
        sa.UniqueConstraint("job_id", "trigger_id", name="uq_backfill_job_id_trigger_id"),
    ),
    (
        "hook",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("secret_name", sa.String(length=128), nullable=False),
        sa.Column("last_seen", TIME, nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["pipeline_job_definition.id"], name="fk_hook_job_id"),
        sa.PrimaryKeyConstraint("name", name="pk_hook"),
    ),
    (
        "pipeline_job_schedule",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("schedule_type", sa.String(length=16), nullable=False),
        sa.Column("cron_expression", sa.String(length=128), nullable=True),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("next_trigger_time", TIME, nullable=True),
        sa.Column("time_zone", sa.String(length=64), server_default="UTC", nullable=False),
        sa.Column("misfire", sa.String(length=8), server_default="one", nullable=False),
        sa.Column("grace_seconds", sa.Integer(), server_default="3600", nullable=False),
        sa.Column("concurrency", sa.String(length=32), server_default="skip", nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("revision", sa.Integer(), server_default="1", nullable=False),
        sa.Column("revised_at", TIME, nullable=False),
        sa.Column("event_cursor", JSON, nullable=True),
        sa.CheckConstraint("misfire IN ('skip', 'one', 'all')", name="ck_pipeline_job_schedule_misfire"),
        sa.CheckConstraint(
            "schedule_type <> 'CRON' OR cron_expression IS NOT NULL", name="ck_pipeline_job_schedule_cron_expression"
        ),
        sa.CheckConstraint(
            "schedule_type IN ('CRON', 'MANUAL', 'EVENT', 'DEPENDENCY')", name="ck_pipeline_job_schedule_schedule_type"
        ),
        sa.CheckConstraint("grace_seconds >= 0", name="ck_pipeline_job_schedule_grace_seconds"),
        sa.ForeignKeyConstraint(["job_id"], ["pipeline_job_definition.id"], name="fk_pipeline_job_schedule_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_job_schedule"),
        sa.UniqueConstraint("job_id", name="uq_pipeline_job_schedule_job_id"),
    ),
    (
        "schedule_fire",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("fire_time", TIME, nullable=False),
        sa.Column("cause", sa.String(length=200), nullable=False),
        sa.Column("decided_at", TIME, nullable=False),
        sa.Column("result", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("execution_id", sa.String(length=64), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("time_zone", sa.String(length=64), nullable=False),
        sa.CheckConstraint("result IN ('FIRED', 'SKIPPED', 'QUEUED')", name="ck_schedule_fire_result"),
        sa.ForeignKeyConstraint(["job_id"], ["pipeline_job_definition.id"], name="fk_schedule_fire_job_id"),
        sa.PrimaryKeyConstraint("job_id", "fire_time", "cause", name="pk_schedule_fire"),
    ),
    (
        "hook_call",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("call_id", sa.String(length=128), nullable=False),
        sa.Column("time", TIME, nullable=False),
        sa.ForeignKeyConstraint(["name"], ["hook.name"], name="fk_hook_call_name"),
        sa.PrimaryKeyConstraint("name", "call_id", name="pk_hook_call"),
    ),
]


def upgrade() -> None:
    """Forward."""
    for name, *parts in TABLES:
        op.create_table(name, *parts)
    op.create_index("ix_schedule_due", "pipeline_job_schedule", ["enabled", "next_trigger_time"], unique=False)
    op.create_index("ix_schedule_fire_queue", "schedule_fire", ["result", "job_id", "fire_time"], unique=False)


def downgrade() -> None:
    """Back."""
    for name, *_ in reversed(TABLES):
        op.drop_table(name)
