"""Who may do what, what they asked for, and what was done."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, LargeBinary, String, Table, Text, UniqueConstraint

from millstream.control.metadata.tables.columns import SCHEMA, Json, UtcTime, one_of, serial

ROLES = ("viewer", "operator", "editor", "author", "admin")

api_token = Table(
    "api_token",
    SCHEMA,
    Column("id", String(32), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("created", UtcTime, nullable=False),
    Column("expires", UtcTime, nullable=False),
    Column("last_used", UtcTime),
    Column("revoked", UtcTime),
    one_of("role", ROLES, "role"),
)

session = Table(
    "session",
    SCHEMA,
    Column("hash", String(64), primary_key=True),
    Column("token_id", String(32), ForeignKey("api_token.id"), nullable=False),
    Column("csrf", String(64), nullable=False),
    Column("expires", UtcTime, nullable=False),
)

operation = Table(
    "operation",
    SCHEMA,
    Column("id", String(64), primary_key=True),
    Column("actor", String(128), nullable=False),
    Column("route", String(200), nullable=False),
    Column("idempotency_key", String(200), nullable=False),
    Column("body_sha256", String(64), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("target", String(200), nullable=False),
    Column("status", String(16), nullable=False),
    Column("answer_code", String(3), nullable=False),
    Column("result", Json),
    Column("error", Json),
    Column("create_time", UtcTime, nullable=False),
    Column("end_time", UtcTime),
    UniqueConstraint("actor", "route", "idempotency_key"),
    one_of("status", ("pending", "running", "done", "failed"), "status"),
)
"""Written in the transaction of the effect: a request that is repeated gets the first answer."""
Index("ix_operation_target", operation.c.target, operation.c.status)

secret = Table(
    "secret",
    SCHEMA,
    Column("name", String(128), primary_key=True),
    Column("key_id", String(64), nullable=False),
    Column("ciphertext", LargeBinary, nullable=False),
    Column("create_time", UtcTime, nullable=False),
    Column("update_time", UtcTime, nullable=False),
)

audit = Table(
    "audit",
    SCHEMA,
    serial(),
    Column("time", UtcTime, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("token_id", String(32)),
    Column("action", String(64), nullable=False),
    Column("target", String(200), nullable=False),
    Column("before", Json),
    Column("after", Json),
    Column("result", String(16), nullable=False),
    Column("detail", Text),
    Column("request_id", String(64)),
)
"""Only ever added to, as triggers of the database see to; refusals stand here too."""
Index("ix_audit_time", audit.c.time)
