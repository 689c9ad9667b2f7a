"""Runs keep the settings of their job that they were started with; those of before read them again at each attempt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Forward."""
    op.add_column(
        "pipeline_job_execution", sa.Column("config", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"))
    )


def downgrade() -> None:
    """Back."""
    op.drop_column("pipeline_job_execution", "config")
