"""What the source contract needs to know of a source: see `millstream.testing.source_under_test`."""

from millstream.testing.source_under_test import OpenedSource as Opened
from millstream.testing.source_under_test import SourceUnderTest, as_multiset, logged

__all__ = ["Opened", "SourceUnderTest", "as_multiset", "logged"]
