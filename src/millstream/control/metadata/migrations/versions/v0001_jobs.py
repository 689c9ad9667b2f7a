"""Tables of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)
TABLES: list[tuple[str, *tuple[sa.schema.SchemaItem, ...]]] = [
    (
        "artifact",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("size", ID, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("create_time", TIME, nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.CheckConstraint("kind IN ('zip', 'wheel')", name="ck_artifact_kind"),
        sa.CheckConstraint("state IN ('READY', 'DELETED')", name="ck_artifact_state"),
        sa.PrimaryKeyConstraint("sha256", name="pk_artifact"),
    ),
    (
        "pipeline_job_definition",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("job_name", sa.String(length=128), nullable=False),
        sa.Column("job_type", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("dag_definition", JSON, nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("parallelism", sa.Integer(), nullable=True),
        sa.Column("max_retry_times", sa.Integer(), server_default="3", nullable=False),
        sa.Column("create_time", TIME, nullable=False),
        sa.Column("update_time", TIME, nullable=False),
        sa.Column("fingerprint", sa.String(length=128), nullable=False),
        sa.Column("artifact_sha256", sa.String(length=64), nullable=True),
        sa.Column("desired", sa.String(length=16), server_default="STOPPED", nullable=False),
        sa.Column("settings", JSON, nullable=False),
        sa.Column("deleted_time", TIME, nullable=True),
        sa.CheckConstraint("desired IN ('RUNNING', 'STOPPED')", name="ck_pipeline_job_definition_desired"),
        sa.CheckConstraint(
            "job_type IN ('STREAMING', 'BATCH_ROLLER', 'SQL_TASK')", name="ck_pipeline_job_definition_job_type"
        ),
        sa.CheckConstraint("max_retry_times >= 0", name="ck_pipeline_job_definition_max_retry_times"),
        sa.CheckConstraint("parallelism > 0", name="ck_pipeline_job_definition_parallelism"),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_job_definition"),
        sa.UniqueConstraint("job_name", name="uq_pipeline_job_definition_job_name"),
    ),
    (
        "job_version",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("dag_definition", JSON, nullable=False),
        sa.Column("parallelism", sa.Integer(), nullable=True),
        sa.Column("settings", JSON, nullable=False),
        sa.Column("plan", JSON, nullable=True),
        sa.Column("fingerprint", sa.String(length=128), nullable=False),
        sa.Column("artifact_sha256", sa.String(length=64), nullable=True),
        sa.Column("create_time", TIME, nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["pipeline_job_definition.id"], name="fk_job_version_job_id"),
        sa.PrimaryKeyConstraint("job_id", "version", name="pk_job_version"),
    ),
    (
        "pipeline_job_config",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("config_key", sa.String(length=128), nullable=False),
        sa.Column("config_value", sa.Text(), nullable=False),
        sa.Column("config_type", sa.String(length=16), server_default="STRING", nullable=False),
        sa.Column("is_sensitive", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("key_id", sa.String(length=64), nullable=True),
        sa.CheckConstraint(
            "config_type IN ('STRING', 'INT', 'BOOLEAN', 'JSON')", name="ck_pipeline_job_config_config_type"
        ),
        sa.CheckConstraint(
            "NOT is_sensitive OR key_id IS NOT NULL", name="ck_pipeline_job_config_sensitive_is_encrypted"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["pipeline_job_definition.id"], name="fk_pipeline_job_config_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_job_config"),
        sa.UniqueConstraint("job_id", "config_key", name="uq_pipeline_job_config_job_id_config_key"),
    ),
]


def upgrade() -> None:
    """Forward."""
    for name, *parts in TABLES:
        op.create_table(name, *parts)
    op.create_index("ix_job_definition_fingerprint", "pipeline_job_definition", ["fingerprint"], unique=False)
    op.create_index("ix_pipeline_job_definition_job_type", "pipeline_job_definition", ["job_type"], unique=False)


def downgrade() -> None:
    """Back."""
    for name, *_ in reversed(TABLES):
        op.drop_table(name)
