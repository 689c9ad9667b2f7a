"""What the sink contract needs to know of a sink, and its words: see `millstream.testing.sink_under_test`."""

from millstream.testing.sink_under_test import (
    EXTREMES,
    SCHEMA,
    VALUES,
    SinkUnderTest,
    context,
    ids,
    plain,
    rows,
    seen,
    stage,
    through_json,
)
from millstream.testing.sink_under_test import OpenedSink as Owner

__all__ = [
    "EXTREMES",
    "SCHEMA",
    "VALUES",
    "Owner",
    "SinkUnderTest",
    "context",
    "ids",
    "plain",
    "rows",
    "seen",
    "stage",
    "through_json",
]
