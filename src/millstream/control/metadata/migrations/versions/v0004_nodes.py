"""Tables of nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)
TABLES: list[tuple[str, *tuple[sa.schema.SchemaItem, ...]]] = [
    (
        "lease",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=True),
        sa.Column("token", ID, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lease"),
    ),
    (
        "node",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("boot", sa.String(length=64), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("heartbeat_at", TIME, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("channel_key", sa.Text(), nullable=True),
        sa.Column("details", JSON, nullable=False),
        sa.CheckConstraint("state IN ('ACTIVE', 'CORDONED', 'DRAINING', 'GONE')", name="ck_node_state"),
        sa.PrimaryKeyConstraint("id", name="pk_node"),
    ),
]


def upgrade() -> None:
    """Forward."""
    for name, *parts in TABLES:
        op.create_table(name, *parts)


def downgrade() -> None:
    """Back."""
    for name, *_ in reversed(TABLES):
        op.drop_table(name)
