"""Counters over events and fires: what they were before rows that are pruned, and up to when that is."""

from __future__ import annotations

from sqlalchemy import Column, Float, String, Table

from millstream.control.metadata.tables.columns import SCHEMA, UtcTime

counter = Table(
    "counter",
    SCHEMA,
    Column("name", String(64), primary_key=True),
    Column("labels", String(300), primary_key=True),
    Column("part", String(16), primary_key=True),
    Column("value", Float(53), nullable=False),
)
"""Only ever grows. `part`: of a histogram its sum or the number of a bucket."""

counter_mark = Table(
    "counter_mark",
    SCHEMA,
    Column("name", String(16), primary_key=True),
    Column("through", UtcTime, nullable=False),
)
"""What happened up to then is in the counters; what happened later is counted where it stands."""
