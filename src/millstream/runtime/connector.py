"""The names under which `contract/` was known before: kept for one release, for connectors written against them."""

from __future__ import annotations

from millstream.contract.sink import SinkCommitter, SinkContext, SinkTask, SinkWriter
from millstream.contract.source import (
    Advance,
    BadRecord,
    Position,
    SelectiveEnumerator,
    SourceContext,
    Split,
    SplitEnumerator,
    SplitReader,
)

__all__ = [
    "Advance",
    "BadRecord",
    "Position",
    "SelectiveEnumerator",
    "SinkCommitter",
    "SinkContext",
    "SinkTask",
    "SinkWriter",
    "SourceContext",
    "Split",
    "SplitEnumerator",
    "SplitReader",
]
