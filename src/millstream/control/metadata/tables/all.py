"""Every table, so that who needs the whole schema imports one module."""

from __future__ import annotations

from millstream.control.metadata.tables import access, counters, jobs, nodes, runs, schedules
from millstream.control.metadata.tables.columns import SCHEMA

GROUPS = (jobs, runs, schedules, nodes, access, counters)
__all__ = ["GROUPS", "SCHEMA"]
