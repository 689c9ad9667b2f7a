"""What happened to a row of a table elsewhere."""

from __future__ import annotations

from enum import StrEnum


class ChangeKind(StrEnum):
    """How a row of a changelog came about; the value stands in its column `op`."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    READ = "read"
    """Found when the table was first read: neither new nor changed."""
