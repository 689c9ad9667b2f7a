"""Tables of counters, and fires by the time they were decided."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
TABLES: list[tuple[str, *tuple[sa.schema.SchemaItem, ...]]] = [
    (
        "counter",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("labels", sa.String(length=300), nullable=False),
        sa.Column("part", sa.String(length=16), nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("name", "labels", "part", name="pk_counter"),
    ),
    (
        "counter_mark",
        sa.Column("name", sa.String(length=16), nullable=False),
        sa.Column("through", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counter_mark"),
    ),
]


def upgrade() -> None:
    """Forward."""
    for name, *parts in TABLES:
        op.create_table(name, *parts)
    op.create_index("ix_schedule_fire_decided", "schedule_fire", ["decided_at"])


def downgrade() -> None:
    """Back."""
    op.drop_index("ix_schedule_fire_decided", "schedule_fire")
    for name, *_ in reversed(TABLES):
        op.drop_table(name)
