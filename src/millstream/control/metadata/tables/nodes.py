"""Nodes, and the leases under which they own runs."""

from __future__ import annotations

from sqlalchemy import Column, Integer, String, Table, Text

from millstream.control.metadata.tables.columns import SCHEMA, Id, Json, UtcTime, one_of

node = Table(
    "node",
    SCHEMA,
    Column("id", String(64), primary_key=True),
    Column("boot", String(64), nullable=False),
    Column("address", Text),
    Column("slots", Integer, nullable=False),
    Column("labels", Json, nullable=False),
    Column("state", String(16), nullable=False),
    Column("version", String(32), nullable=False),
    Column("heartbeat_at", UtcTime, nullable=False),
    Column("started_at", UtcTime, nullable=False),
    Column("channel_key", Text),
    Column("details", Json, nullable=False),
    one_of("state", ("ACTIVE", "CORDONED", "DRAINING", "GONE"), "state"),
)

lease = Table(
    "lease",
    SCHEMA,
    Column("name", String(200), primary_key=True),
    Column("owner", String(200)),
    Column("token", Id, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)
"""Rows are never deleted: tokens never fall."""
