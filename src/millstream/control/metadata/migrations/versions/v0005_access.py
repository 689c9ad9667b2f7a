"""Tables of access."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)
TABLES: list[tuple[str, *tuple[sa.schema.SchemaItem, ...]]] = [
    (
        "api_token",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created", TIME, nullable=False),
        sa.Column("expires", TIME, nullable=False),
        sa.Column("last_used", TIME, nullable=True),
        sa.Column("revoked", TIME, nullable=True),
        sa.CheckConstraint("role IN ('viewer', 'operator', 'editor', 'author', 'admin')", name="ck_api_token_role"),
        sa.PrimaryKeyConstraint("id", name="pk_api_token"),
        sa.UniqueConstraint("hash", name="uq_api_token_hash"),
    ),
    (
        "audit",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("time", TIME, nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("token_id", sa.String(length=32), nullable=True),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("before", JSON, nullable=True),
        sa.Column("after", JSON, nullable=True),
        sa.Column("result", sa.String(length=16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    ),
    (
        "operation",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("route", sa.String(length=200), nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("body_sha256", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("answer_code", sa.String(length=3), nullable=False),
        sa.Column("result", JSON, nullable=True),
        sa.Column("error", JSON, nullable=True),
        sa.Column("create_time", TIME, nullable=False),
        sa.Column("end_time", TIME, nullable=True),
        sa.CheckConstraint("status IN ('pending', 'running', 'done', 'failed')", name="ck_operation_status"),
        sa.PrimaryKeyConstraint("id", name="pk_operation"),
        sa.UniqueConstraint("actor", "route", "idempotency_key", name="uq_operation_actor_route_idempotency_key"),
    ),
    (
        "secret",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("key_id", sa.String(length=64), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("create_time", TIME, nullable=False),
        sa.Column("update_time", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secret"),
    ),
    (
        "session",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("token_id", sa.String(length=32), nullable=False),
        sa.Column("csrf", sa.String(length=64), nullable=False),
        sa.Column("expires", TIME, nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["api_token.id"], name="fk_session_token_id"),
        sa.PrimaryKeyConstraint("hash", name="pk_session"),
    ),
]


def upgrade() -> None:
    """Forward."""
    for name, *parts in TABLES:
        op.create_table(name, *parts)
    op.create_index("ix_audit_time", "audit", ["time"], unique=False)
    op.create_index("ix_operation_target", "operation", ["target", "status"], unique=False)


def downgrade() -> None:
    """Back."""
    for name, *_ in reversed(TABLES):
        op.drop_table(name)
